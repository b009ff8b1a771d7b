package rdma_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// denying refuses reads of one device with an error.
type denying struct {
	fs.ReadLinkFS
	ibdev string
	err   error
}

func (d *denying) check(op, name string) error {
	if strings.Contains(name, "/infiniband/"+d.ibdev) {
		return &fs.PathError{Op: op, Path: name, Err: d.err}
	}
	return nil
}

func (d *denying) Open(name string) (fs.File, error) {
	if err := d.check("open", name); err != nil {
		return nil, err
	}
	return d.ReadLinkFS.Open(name)
}

// TestUnreadableIsNotGone: a device whose directory cannot be read is reported as a problem. Only one whose directory
// does not exist has gone.
func TestUnreadableIsNotGone(t *testing.T) {
	sys := os.DirFS(filepath.Join(rdmatest.Root(t, "hgx-h100"), "sys")).(fs.ReadLinkFS)
	for err, reported := range map[error]bool{
		syscall.EIO: true, syscall.EACCES: true, syscall.ENOTCONN: true, syscall.ENOENT: false,
	} {
		snap, discovered := rdma.Discover(&denying{sys, "mlx5_0", err})
		must.NoError(t, discovered)
		test.False(t, slices.ContainsFunc(snap.HCAs, func(h rdma.HCA) bool { return h.IBDev == "mlx5_0" }),
			test.Sprintf("%v: the device is complete", err))
		says := slices.ContainsFunc(snap.Problems, func(p rdma.Problem) bool { return p.IBDev == "mlx5_0" })
		test.Eq(t, reported, says, test.Sprintf("%v: problems are %v, want one of mlx5_0", err, snap.Problems))
	}
}
