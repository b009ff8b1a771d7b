// Launch becomes a program whose calls on files a test supervises (package sysfault). Each
// start of a program under test is one of it, so it does little, and has little to load.
//
//	launch SOCKET PROGRAM ARGUMENT...
package main

import (
	"fmt"
	"os"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/sysfault"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: launch SOCKET PROGRAM ARGUMENT...")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, sysfault.Become(os.Args[1], os.Args[2:]))
	os.Exit(1)
}
