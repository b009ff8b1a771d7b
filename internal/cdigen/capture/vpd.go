package capture

import (
	"context"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// vpd takes the two values of VPD that matter to RDMA, of functions for which it is read at all. Everything else of
// VPD, serial numbers above all, stays on the host.
func (c *capturer) vpd(dir string) {
	id := func(name string) string {
		b, _ := fs.ReadFile(c.sys, path.Join(dir, name))
		return strings.TrimPrefix(strings.TrimSpace(string(b)), "0x")
	}
	file := path.Join(dir, "vpd")
	if _, err := c.sys.Lstat(file); err != nil || !rdma.NeedsVPD(id("vendor"), id("device")) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rdma.VPDTime)
	defer cancel()
	switch v := rdma.ReadVPD(ctx, c.sys, map[string]string{dir: file})[dir]; {
	case v.Denied:
		c.write(tree.Entry{Path: "sys/" + file, Kind: tree.Broken, Errno: syscall.EACCES})
	case v.Problem != "":
		c.write(tree.Entry{Path: "sys/" + file, Kind: tree.Broken, Errno: syscall.EIO})
	default:
		c.write(tree.Entry{Path: "sys/" + file, Kind: tree.File, Data: tree.VPD(v.Card, v.Purpose)})
	}
}
