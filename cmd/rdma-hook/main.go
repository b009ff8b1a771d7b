// Command rdma-hook is an OCI createRuntime hook. It raises RLIMIT_MEMLOCK of a container's init process, so that RDMA
// applications can register memory without any capability, and it limits how much of RDMA devices the container may
// use. CDI specs name it; see docs/hook.md.
//
// It is a separate static binary, because it runs on the host in every start of a container with an RDMA device. It
// links only packages of the standard library and of golang.org/x/sys that start quickly.
//
// Exit codes: see hook.ExitCodes.
//
// Unknown flags and extra arguments are warnings, because a CDI spec may outlive the version of the driver that wrote
// it.
package main

import (
	"os"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/usable"
)

// version is set when a release is linked: -ldflags "-X main.version=v1.2.3".
var version = "devel"

func main() {
	os.Exit(hook.Run(os.Args[1:], version, hook.IO{
		Stdin:  os.Stdin,
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		Open:   hook.OpenProcess,
		Files:  hook.HostFiles{},

		Devices:   hook.HostDevices{},
		Container: usable.OpenBundle,
	}))
}
