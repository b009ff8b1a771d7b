package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"

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

// TestSignals: a kernel that does not answer cannot keep the program from ending.
func TestSignals(t *testing.T) {
	root := rdmatest.Root(t, "roce-lag")
	hca, err := filepath.EvalSymlinks(filepath.Join(root, "sys/class/infiniband/mlx5_bond_0"))
	must.NoError(t, err)
	guid := filepath.Join(hca, "node_guid")
	must.NoError(t, errors.Join(os.Remove(guid), syscall.Mkfifo(guid, 0o644)))
	silent, err := os.OpenFile(guid, os.O_RDWR, 0) // a writer that writes nothing
	must.NoError(t, err)
	defer silent.Close()
	cmd := program(t, "list", "--host-root", root)
	must.NoError(t, cmd.Start())
	await(t, "the program waits", func() bool {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", cmd.Process.Pid))
		return slices.ContainsFunc(fds, func(fd string) bool {
			file, _ := os.Readlink(fd)
			return file == guid
		})
	})
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	await(t, "the end of the program", func() bool {
		_ = cmd.Process.Signal(os.Interrupt) // an error once it has ended
		return len(ended) > 0
	})
}
