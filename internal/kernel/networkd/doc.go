// Package networkd reads which switches announce themselves on the interfaces of a host, as systemd-networkd has heard
// them by LLDP (IEEE 802.1AB). Anybody may read that: no privilege and no socket for packets is needed.
//
// A newer systemd answers through its varlink socket (method io.systemd.Network.GetLLDPNeighbors). An older one keeps
// the frames of each interface in a file (systemd, src/network/networkd-lldp-rx.c, link_lldp_save).
//
// What a neighbor announces is of strangers: any device on the link can send it. All sizes are bounded, and the texts
// are as they were sent: the caller validates them.
package networkd
