// Command cluster runs a real one-node Kubernetes cluster on this host, isolated
// from it. "cluster help" tells how.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

func main() {
	cluster.Init()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(exitCode(err, os.Stderr))
}

// errUsage marks an error in the command line.
var errUsage = errors.New("bad usage")

// exitCode says what to tell the shell: what the program that exec ran says, 128 and the
// signal's number when one killed it, 2 for a bad command line, 3 for no cluster, 1
// for the rest.
func exitCode(err error, stderr io.Writer) int {
	var exit *exec.ExitError
	if err == nil {
		return 0
	}
	if errors.As(err, &exit) {
		if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
			return 128 + int(status.Signal())
		}
		return exit.ExitCode()
	}
	fmt.Fprintf(stderr, "cluster: %v\n", err)
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, `Run "cluster help" for the commands.`)
		return 2
	case errors.Is(err, cluster.ErrNotRunning):
		return 3
	}
	return 1
}
