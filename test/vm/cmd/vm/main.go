// Command vm runs a command in a virtual machine with a real RDMA kernel. "vm help"
// tells how.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/rdma-dev/dra-driver-rdma/test/vm"
)

const help = `vm runs a command in a virtual machine with a real RDMA kernel: soft-RoCE and
soft-iWARP devices, all capabilities, cgroup v2. It needs root and QEMU, no KVM.

  vm build [--renew]                   build the kernel and the root file system, if
           [--mirror URL]              the cache lacks them; --renew: with today's packages
  vm run [flags] [--] COMMAND [ARG...] boot, run the command, and end
      --rdma "rxe0:eth0 rxe1:dummy0"   RDMA devices and their network devices; the
                                       default; siwN is soft-iWARP, rxmN a soft-RoCE that
                                       can be moved; dummyN and vethN are made
      --mem MB, --cpus N               1024 and 1; more than one CPU is no faster
      --timeout DURATION               10m
      --share DIR                      a directory of the host, at its own path; can be
      --share-ro DIR                   repeated; the default is the working directory
      --env NAME=VALUE                 can be repeated
  vm capture [--rdma ...] --name NAME --description FILE DIR
                                       capture the guest's sysfs as the fixture machine
                                       DIR/NAME.txtar

Standard output and error are the command's. The image is kept in $DRA_RDMA_CACHE, by
default dra-driver-rdma in the user's cache directory.
Exit status of run: the command's; 124 time is up, 125 the virtual machine failed, 126
and 127 the command cannot be started, 128+N a signal ended it. Of the others: 0 done,
1 failed. 2 is bad usage everywhere.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// errUsage marks an error in the command line.
var errUsage = errors.New("bad usage")

// The exit codes of our own.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitTimeout = 124
	exitMachine = 125
)

// verb does one command and returns the exit status if there is no error.
type verb func(ctx context.Context, argv []string, stdout, stderr io.Writer) (int, error)

var verbs = map[string]verb{"build": build, "run": execute, "capture": capture}

func run(ctx context.Context, argv []string, stdout, stderr io.Writer) int {
	if len(argv) == 0 || slices.Contains([]string{"help", "-h", "--help"}, argv[0]) ||
		len(argv) > 1 && slices.Contains([]string{"-h", "--help"}, argv[1]) {
		io.WriteString(stdout, help)
		return 0
	}
	do, ok := verbs[argv[0]]
	if !ok {
		fmt.Fprintf(stderr, "vm: unknown command %q\nRun \"vm help\" for the commands.\n", argv[0])
		return exitUsage
	}
	code, err := do(ctx, argv[1:], stdout, stderr)
	if err == nil {
		return code
	}
	fmt.Fprintln(stderr, "vm:", err)
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, `Run "vm help" for the commands.`)
		return exitUsage
	case argv[0] != "run":
		return exitFailed
	case errors.Is(err, vm.ErrTimeout):
		return exitTimeout
	}
	return exitMachine
}
