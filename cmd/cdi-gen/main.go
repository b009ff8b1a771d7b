// Command cdi-gen writes Container Device Interface (CDI) specs for the RDMA devices of a host. Then podman, docker,
// containerd and CRI-O can give a device to a container by name:
//
//	cdi-gen generate --to /etc/cdi
//	podman run --device rdma.dev/hca=mlx5_0 IMAGE
//
// Results go to standard output, everything else to standard error. exitCodes describes the exit codes.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// The exit codes are an interface for scripts and must not change. exitCodes describes them.
const (
	exitOK        = exitcode.OK
	exitIO        = exitcode.Failed
	exitUsage     = exitcode.Usage
	exitNothing   = 3
	exitPartial   = 4
	exitExclusive = 5
	exitInvalid   = 6
	exitDrift     = 7
	exitNotChosen = 9

	exitWarnings = 10
	exitErrors   = 11
	exitRefused  = 12

	exitUnresolved = 13
	exitHook       = 14
)

var exitCodes = exitcode.List{
	exitOK:         "done",
	exitIO:         "something could not be read or written",
	exitUsage:      exitcode.BadUsage,
	exitNothing:    "the host has no RDMA device that a container can be given",
	exitPartial:    "done, but some devices were left out (the reasons are on standard error)",
	exitExclusive:  "the host is in exclusive network namespace mode",
	exitInvalid:    "validate, devices: a runtime refuses a CDI spec, or a device that two files define",
	exitDrift:      "generate --check, devices, apply: a spec does not fit the host",
	exitNotChosen:  "the flags choose none of the host's RDMA devices, or give them no name: an existing spec stays",
	exitWarnings:   "doctor: there are warnings",
	exitErrors:     "doctor: there are errors",
	exitRefused:    "configure: no CDI in the runtime, an edit unsafe or without effect, or the user is not root",
	exitUnresolved: "apply, list -o name: a device is in no CDI spec that a runtime would load",
	exitHook:       "generate, watch: the hook is missing, or a runtime must not run it",
}

// newExitCodes is a topic of help: a command without a function.
func newExitCodes() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodes.Help()}
}

// errSaid is an error that the output has said already.
var errSaid = errors.New("the output says what is wrong")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program, with its arguments and outputs as parameters.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Run(ctx, newRoot(), args, stdout, stderr, func(err error) string {
		switch {
		case errors.Is(err, errSaid):
			return ""
		case errors.Is(err, cdi.ErrNoDevices):
			return "cdi-gen: " + err.Error() + "; cdi-gen doctor says what is missing"
		}
		return "cdi-gen: " + err.Error()
	})
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "cdi-gen",
		Short: "Write CDI specs for the RDMA devices of this host",
		Long: `cdi-gen describes the RDMA devices (InfiniBand, RoCE, iWARP, EFA) of this host to
container runtimes, in the Container Device Interface (CDI). A container then
gets one by name, with exactly its /dev/infiniband nodes and with locked memory
that works without capabilities:

  cdi-gen generate --to /etc/cdi
  podman run --device rdma.dev/hca=mlx5_0 IMAGE`,
	}
	root.AddCommand(newGenerate(), newWatch(), newList(), newDevices(), newValidate(), newRemove(),
		newUserspace(), newTopology(), newDoctor(), newLooks(), newReport(), newUnpack(), newConfigure(), newApply(), newArgs(),
		newExitCodes())
	cli.AddVersion(root, "cdi-gen")
	refuseEmpty(root)
	complete(root)
	return root
}
