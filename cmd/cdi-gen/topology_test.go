package main

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
)

// TestTopologyDiskFull: what cannot be written is an error, in each form.
func TestTopologyDiskFull(t *testing.T) {
	root := rdmatest.Root(t, "roce-sriov")
	for _, args := range []string{"", "-o tree", "-o matrix", "-o svg", "-o json", "-o yaml"} {
		var talk bytes.Buffer
		code := run(t.Context(), append([]string{"topology", "--host-root", root}, strings.Fields(args)...), fullDisk{},
			&talk)
		if code != exitIO || !strings.Contains(talk.String(), "write topology: no space left on device") {
			t.Errorf("%q: exit code %d, %q", args, code, talk.String())
		}
	}
}

// fullDisk is a disk without room.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }
