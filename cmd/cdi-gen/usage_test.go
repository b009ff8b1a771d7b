package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
)

// TestBrokenPipe: a result that cannot be written is an error.
func TestBrokenPipe(t *testing.T) {
	root := host(t, "roce-lag")
	for _, args := range [][]string{
		{"generate", "--no-hook", "--host-root", root},
		{"list", "--host-root", root},
		{"list", "-o", "json", "--host-root", root},
		{"list", "-o", "yaml", "--host-root", root},
		{"list", "-o", "name", "--host-root", root},
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), args, full{}, &stderr); code != exitIO ||
			!strings.Contains(stderr.String(), "the pipe is full") {
			t.Errorf("%s: exit code %d, standard error %q; want %d", args, code, &stderr, exitIO)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("the pipe is full") }

// TestSignals: a pipe that nobody reads cannot keep the program from ending.
func TestSignals(t *testing.T) {
	r, w, err := os.Pipe() // which nobody reads
	must.NoError(t, err)
	defer r.Close()
	size, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize())
	must.NoError(t, err)
	cmd := program(t, "list", "-o", "json", "--host-root", rdmatest.Root(t, "hgx-h100"))
	cmd.Stdout = w
	must.NoError(t, errors.Join(cmd.Start(), w.Close()))
	await(t, "the program waits", func() bool {
		n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		return err == nil && n == size
	})
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	await(t, "the end of the program", func() bool {
		_ = cmd.Process.Signal(os.Interrupt) // an error once it has ended
		return len(ended) > 0
	})
}
