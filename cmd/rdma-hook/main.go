// Command rdma-hook is an OCI createRuntime hook that raises RLIMIT_MEMLOCK of
// a container's init process, so that RDMA applications can register memory
// without any capability, and that limits what the container may use of RDMA devices.
// CDI specs name it; see docs/hook.md.
//
// It is a static binary of its own, because it runs in every start of a
// container with an RDMA device, on the host and outside of any container: it
// links the standard library and golang.org/x/sys only, and of those only what
// starts quickly.
//
// Exit codes:
//
//	0  done, or nothing to do (a warning on stderr says which)
//	1  the limit may not be raised or a device not limited, and --on-denied is fail
//	2  a known flag has a value that is not understood
//	3  stdin holds no OCI state, or one without a usable pid
//	4  no complete OCI state arrived within --timeout
//	5  the process is gone or a limit cannot be changed, and --on-denied is fail
//	6  a device is not in the container's network namespace, or has other nodes by now
//
// Unknown flags and extra arguments are warnings: a CDI spec may outlive the
// version of the driver that wrote it.
package main

import (
	"os"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
)

// version is set at build time: -ldflags "-X main.version=v1.2.3".
var version = "dev"

func main() {
	os.Exit(hook.Run(os.Args[1:], version, hook.IO{
		Stdin:  0,
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		Open:   hook.OpenProcess,
		Files:  hook.HostFiles{},

		Devices: hook.HostDevices{},
	}))
}
