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
	"net"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// The exit codes of some commands, beside those of all programs.
const (
	exitWrong   = 3 // what the command was asked about is not as it should be
	exitUnknown = 4 // nobody can tell
)

var (
	exitCodes = exitcode.List{
		exitcode.OK: "done, also if there is nothing to show", exitcode.Failed: "failed", exitcode.Usage: exitcode.BadUsage,
	}
	policyCodes = exitcode.List{
		exitcode.OK:     "the file applies on all nodes, whatever would change",
		exitcode.Failed: "failed", exitcode.Usage: exitcode.BadUsage,
		exitWrong: "a driver refuses the file, rails or ipam of it do not apply on a node, or nobody can tell",
	}
	whyCodes = exitcode.List{
		exitcode.OK:     "explained, whatever the answer is; with -f: each pod fits",
		exitcode.Failed: "failed", exitcode.Usage: exitcode.BadUsage,
		exitWrong: "with -f: a pod would not get its devices now, or nobody can tell",
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
	return cli.Run(ctx, root, args, stdout, stderr, message)
}

// message returns the text of an error in kubectl's form.
func message(err error) string {
	var status apierrors.APIStatus
	failed, isURL := errors.AsType[*url.Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		return "error: interrupted"
	case errors.As(err, &status):
		return fmt.Sprintf("Error from server (%s): %v", status.Status().Reason, err)
	case isURL:
		server := failed.URL
		if u, err := url.Parse(failed.URL); err == nil {
			server = u.Scheme + "://" + u.Host
		}
		return fmt.Sprintf("error: the API server %s does not answer: %s; see whether kubectl cluster-info works with "+
			"the same flags", server, unanswered(failed))
	}
	return "error: " + err.Error()
}

// unanswered says why a request has no answer, without the calls of the network.
func unanswered(failed *url.Error) string {
	if errno, ok := errors.AsType[syscall.Errno](failed); ok {
		return errno.Error()
	}
	if host, ok := errors.AsType[*net.DNSError](failed); ok {
		return fmt.Sprintf("find %q: %s", host.Name, host.Err)
	}
	if failed.Timeout() {
		return "no answer in time"
	}
	return failed.Err.Error()
}
