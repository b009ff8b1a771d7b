// Command kubectl-rdma is a plugin of kubectl that shows the RDMA devices of a cluster
// and who has them, and explains why a pod does not get its devices:
//
//	kubectl rdma nodes
//	kubectl rdma why trainer-0
//
// The answers are those of package inspect. What is here is flags, and reading and
// printing as kubectl does it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/rdma-dev/dra-driver-rdma/internal/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/quote"
)

// The exit codes are kubectl's own.
const (
	exitOK    = 0
	exitError = 1
)

var (
	exitCodes = exitcode.List{exitOK: "done, also if there is nothing to show", exitError: "failed"}
	whyCodes  = exitcode.List{exitOK: "explained, whatever the answer is", exitError: "failed"}
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program on given arguments and streams.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stdout, stderr = quote.Writer(stdout), quote.Writer(stderr)
	root := newRoot(genericiooptions.IOStreams{In: stdin, Out: stdout, ErrOut: stderr})
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(stderr, message(err))
		return exitError
	}
	return exitOK
}

// message words an error as kubectl does.
func message(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return fmt.Sprintf("Error from server (%s): %v", status.Status().Reason, err)
	}
	return "error: " + err.Error()
}
