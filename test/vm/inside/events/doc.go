// Package events holds tests that run inside the virtual machine: what a real RDMA
// kernel says when links fail and devices come, go and change their names, and what
// becomes of the picture of the host.
package events
