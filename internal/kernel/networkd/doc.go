// Package networkd reads which switches announce themselves on the interfaces of a host, as systemd-networkd has heard
// them by LLDP (IEEE 802.1AB). It asks networkd's varlink socket (method io.systemd.Network.GetLLDPNeighbors of systemd
// 257 and later). Anybody may do that: no privilege and no socket for packets is needed.
//
// What a neighbor announces is of strangers: any device on the link can send it. All sizes are bounded, and the texts
// are as they were sent: the caller validates them.
package networkd
