// Command init is process 1 of the virtual machine. It is started by the kernel, from
// the initramfs, and does what package guest says.
package main

import "github.com/rdma-dev/dra-driver-rdma/test/vm/internal/guest"

func main() { guest.Main() }
