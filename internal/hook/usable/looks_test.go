package usable

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/rdmaimage"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// failures let the looks fail.
var failures = map[string]func(*Container){
	"/etc/ld.so.cache":     func(c *Container) { c.hide("/etc/ld.so.cache") },
	"libibverbs":           func(c *Container) { c.hide("/usr/lib/" + rdmaimage.Triplet + "/libibverbs.so.1") },
	"/etc/libibverbs.d":    func(c *Container) { c.hide("/etc/libibverbs.d") },
	"providers":            func(c *Container) { c.hide("/usr/lib/" + rdmaimage.Triplet + "/libibverbs") },
	"/dev/infiniband/*":    func(c *Container) { c.hide("/dev/infiniband/uverbs0") },
	"user namespace":       func(c *Container) { c.Process.Unknown = unknownIDs },
	"limit of the process": func(c *Container) { c.Process.Memlock = nil },

	"/sys/class/infiniband_verbs/*/ibdev": func(c *Container) { c.Sys += "/none" },
}

// hide makes a path one of a file system that may not answer.
func (c *Container) hide(path string) { c.Root.remote = append(c.Root.remote, path) }

// TestLooks: where a look of a kind fails, no finding of the kind says good or bad.
func TestLooks(t *testing.T) {
	needs.Root(t, "device nodes")
	shown := map[string]bool{}
	for _, good := range []bool{true, false} {
		dir, sys := t.TempDir(), t.TempDir()
		image, mode, limit, names := rdmaimage.Debian("mlx5"), uint32(0o666), args.Unlimited, "NCCL_IB_HCA=mlx5_0,mlx5_1"
		if !good {
			image, mode, limit, names = rdmaimage.Debian("rxe"), 0o600, 64<<10, "NCCL_IB_HCA=mlx5_9"
		}
		image.Make(t, dir)
		other := filepath.Join(sys, "class/infiniband_verbs/uverbs1/ibdev")
		must.NoError(t, os.MkdirAll(filepath.Dir(other), 0o755))
		must.NoError(t, os.WriteFile(other, []byte("mlx5_1\n"), 0o644))
		must.NoError(t, os.MkdirAll(filepath.Join(dir, nodeDir), 0o755))
		for _, name := range []string{"uverbs0", "uverbs1"} {
			node := filepath.Join(dir, nodeDir, name)
			must.NoError(t, unix.Mknod(node, unix.S_IFCHR|mode, int(unix.Mkdev(1, 3))))
			must.NoError(t, os.Chmod(node, os.FileMode(mode)))
		}
		findings := func(fail func(*Container)) []finding.Finding {
			root, err := OpenRoot(os.Getpid(), dir)
			must.NoError(t, err)
			defer root.Close()
			c := &Container{Root: root, Process: Process{UID: 1000, Env: []string{names}, Cwd: "/", Memlock: (*uint64)(&limit)},
				Sys: sys}
			fail(c)
			return append(c.Check(mlx5), c.Process.checkMemlock(args.Unlimited))
		}
		for _, f := range findings(func(*Container) {}) {
			must.Eq(t, good, f.Severity == finding.OK, must.Sprint(f))
			shown[f.ID+fmt.Sprint(good)] = true
			for _, look := range record.Kinds.Find(f.ID).Looks {
				must.MapContainsKey(t, failures, look)
				same := func(o finding.Finding) bool { return o.ID == f.ID && o.Severity != finding.NotSeen }
				test.False(t, slices.ContainsFunc(findings(failures[look]), same), test.Sprintf("%v, without %s", f, look))
			}
		}
	}
	table := "\n| finding | looks in the container |\n|---|---|\n"
	for _, k := range record.Kinds.Kinds {
		test.True(t, shown[k.ID+"true"] && shown[k.ID+"false"], test.Sprintf("%s is shown good and bad", k.ID))
		table += fmt.Sprintf("| `%s` | `%s` |\n", k.ID, strings.Join(k.Looks, "`, `"))
	}
	golden.Section(t, "../../../docs/dev/findings.md", "usable", table+"\n")
}
