// Command cdi-gen writes Container Device Interface (CDI) specs for the RDMA
// devices of a host, so that podman, docker, containerd and CRI-O can give one
// to a container by name:
//
//	cdi-gen generate --output /etc/cdi
//	podman run --device rdma.dev/hca=mlx5_0 IMAGE
//
// Results go to standard output, everything else to standard error. The exit
// codes are those of type exitCode.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/version"
)

// exitCode is what the program ends with, for scripts to act on.
type exitCode int

const (
	exitOK        exitCode = 0
	exitIO        exitCode = 1 // something could not be read or written
	exitUsage     exitCode = 2 // bad flags or arguments
	exitNothing   exitCode = 3 // the host has no RDMA device
	exitPartial   exitCode = 4 // done, but some devices were left out
	exitExclusive exitCode = 5 // the host's RDMA devices are bound to network namespaces
	exitInvalid   exitCode = 6 // validate: a file is no valid CDI spec
	exitDrift     exitCode = 7 // generate --check: the file does not fit the host
	exitMisfit    exitCode = 8 // userspace --image: the image does not go with the host's libraries

	exitWarnings exitCode = 10 // doctor: there are warnings
	exitErrors   exitCode = 11 // doctor: there are errors
)

const exitCodesHelp = `
Exit codes:
  0  done
  1  something could not be read or written
  2  bad flags or arguments
  3  the host has no RDMA device that a container can be given
  4  done, but some devices were left out (the reasons are on standard error)
  5  the host is in exclusive network namespace mode
  6  validate: a file is not a valid CDI spec
  7  generate --check: the file does not fit the host
  8  userspace --image: the image does not go with the host's libraries
 10  doctor: there are warnings
 11  doctor: there are errors
`

// coded is an error with an exit code.
type coded struct {
	code exitCode
	err  error
}

func (c coded) Error() string { return c.err.Error() }
func (c coded) Unwrap() error { return c.err }

func usagef(format string, args ...any) error {
	return coded{exitUsage, fmt.Errorf(format, args...)}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program, whatever it waits for
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(int(code))
}

// run is the whole program on given arguments and outputs.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) exitCode {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	strict(root)
	complete(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "cdi-gen: %v\n", err)
	if c, ok := errors.AsType[coded](err); ok {
		return c.code
	}
	return exitIO
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "cdi-gen",
		Short: "Write CDI specs for the RDMA devices of this host",
		Long: `cdi-gen describes the RDMA devices (InfiniBand, RoCE, iWARP, EFA) of this host to
container runtimes, in the Container Device Interface (CDI). A container then
gets one by name, with exactly its /dev/infiniband nodes and with locked memory
that works without capabilities:

  cdi-gen generate --output /etc/cdi
  podman run --device rdma.dev/hca=mlx5_0 IMAGE
` + exitCodesHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.Version = version.String("cdi-gen")
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(newGenerate(), newWatch(), newList(), newValidate(), newRemove(), newUserspace(), newTopology(), newDoctor(), newVersion())
	return root
}
