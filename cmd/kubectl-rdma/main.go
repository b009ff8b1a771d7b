// Command kubectl-rdma is a plugin of kubectl. It shows the RDMA devices of a cluster and the pods that have them, and
// explains why a pod does not get its devices:
//
//	kubectl rdma nodes
//	kubectl rdma why trainer-0
//
// Package inspect makes the answers. This package has the flags, and reads and prints as kubectl does.
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// The exit codes are the same as kubectl's.
const (
	exitOK    = 0
	exitError = 1
)

var (
	exitCodes   = exitcode.List{exitOK: "done, also if there is nothing to show", exitError: "failed"}
	policyCodes = exitcode.List{
		exitOK:    "the file applies on all nodes, whatever would change",
		exitError: "failed, or a driver refuses the file, or rails or ipam of it do not apply on a node",
	}
	whyCodes = exitcode.List{
		exitOK:    "explained, whatever the answer is; with -f: each pod fits",
		exitError: "failed; with -f: not each pod fits",
	}
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program, with its arguments and streams as parameters.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stdout, stderr = text.Writer(stdout), text.Writer(stderr)
	root := newRoot(genericiooptions.IOStreams{In: stdin, Out: stdout, ErrOut: stderr})
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	began := false // a command did: its flags and arguments are right
	root.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	said := message(err)
	if !began {
		said = text.WithHint(said, cmd.CommandPath())
	}
	fmt.Fprintln(stderr, text.Message(said))
	if coded, ok := errors.AsType[*codedError](err); ok {
		return coded.code
	}
	return exitError
}

// message returns the text of an error in kubectl's form.
func message(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return fmt.Sprintf("Error from server (%s): %v", status.Status().Reason, err)
	}
	return "error: " + err.Error()
}
