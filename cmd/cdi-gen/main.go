// Command cdi-gen writes Container Device Interface (CDI) specs for the RDMA devices of a host. Then podman, docker,
// containerd and CRI-O can give a device to a container by name:
//
//	cdi-gen generate --to /etc/cdi
//	podman run --device rdma.dev/hca=mlx5_0 IMAGE
//
// Results go to standard output, everything else to standard error. exitCodes describes the exit codes.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/version"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// The exit codes are an interface for scripts and must not change. exitCodes describes them.
const (
	exitOK        = 0
	exitIO        = 1
	exitUsage     = 2
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
	exitUsage:      "bad flags or arguments",
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

// coded is an error with an exit code.
type coded struct {
	code int
	err  error
}

func (c coded) Error() string { return c.err.Error() }
func (c coded) Unwrap() error { return c.err }

// errSaid is an error that the output has said already.
var errSaid = errors.New("the output says what is wrong")

func usagef(format string, args ...any) error {
	return coded{exitUsage, fmt.Errorf(format, args...)}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program, with its arguments and outputs as parameters.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	stdout, stderr = text.Writer(stdout), text.Writer(stderr)
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	strict(root)
	complete(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code := exitIO
	if c, ok := errors.AsType[coded](err); ok {
		code = c.code
	}
	said := err.Error()
	switch {
	case errors.Is(err, errSaid):
		return code
	case errors.Is(err, cdi.ErrNoDevices):
		said += "; cdi-gen doctor says what is missing"
	case code == exitUsage:
		said = text.WithHint(said, cmd.CommandPath())
	}
	fmt.Fprintln(stderr, text.Message("cdi-gen: "+said))
	return code
}

// help prints the help of a command. Cobra's own help does not wrap lines.
func help(cmd *cobra.Command, _ []string) {
	out := strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)) + "\n"
	if cmd.Runnable() || cmd.HasSubCommands() {
		out += "\n" + cmd.UsageString()
	}
	cmd.Print(text.Help(out))
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
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,

		SuggestionsMinimumDistance: 2,
	}
	// Cobra's own flag must not be used: it needs text/template, and the linker would then keep every method.
	wanted := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *wanted {
			cmd.Println(version.String("cdi-gen"))
			return nil
		}
		return cmd.Help()
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w%s", err, suggestFlag(cmd, err))
	})
	root.SetHelpFunc(help)
	root.AddCommand(newGenerate(), newWatch(), newList(), newDevices(), newValidate(), newRemove(),
		newUserspace(), newTopology(), newDoctor(), newLooks(), newReport(), newUnpack(), newConfigure(), newApply(), newArgs(),
		newVersion(),
		newExitCodes())
	refuseEmpty(root)
	return root
}
