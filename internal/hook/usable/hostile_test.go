package usable

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/mountinfo"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/elftest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/rdmaimage"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

var mlx5 = []args.HCA{{IBDev: "mlx5_0", Node: "uverbs0", Driver: "mlx5_core"}}

// containerOf opens a directory as the root of a container with the node of an HCA.
func containerOf(t testing.TB, dir string, env ...string) *Container {
	t.Helper()
	node := filepath.Join(dir, nodeDir, "uverbs0")
	must.NoError(t, os.MkdirAll(filepath.Dir(node), 0o755))
	must.NoError(t, os.WriteFile(node, nil, 0o666))
	root, err := OpenRoot(os.Getpid(), dir)
	must.NoError(t, err)
	t.Cleanup(root.Close)
	return &Container{Root: root, Process: Process{Env: env, Cwd: "/"}, Sys: t.TempDir()}
}

func provider(checks []finding.Finding) finding.Finding {
	for _, c := range checks {
		if c.ID == record.Provider.ID {
			return c
		}
	}
	return finding.Finding{}
}

func withEtc(i *rdmaimage.Image) *rdmaimage.Image {
	i.Files["etc/hostname"] = "x"
	return i
}

// secret is a file outside of the root that nothing may say a word of.
const secret = "the-secret-of-the-host"

// TestHostile: an image leads nowhere else, nothing of it is printed raw, and it has nothing that makes the checks
// long.
func TestHostile(t *testing.T) {
	outside := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(outside, "mlx5.driver"), []byte("driver mlx5 "+secret+"\n"), 0o644))
	lib := func(name string) string { return "usr/lib/" + rdmaimage.Triplet + "/" + name }
	debian := func() *rdmaimage.Image { return rdmaimage.Debian("mlx5", "rxe") }
	escape := func(text string) *rdmaimage.Image {
		i := debian()
		v := i.Verbs()
		v.ROData = strings.ReplaceAll(v.ROData, "/etc/libibverbs.d", text)
		i.Lib("libibverbs.so.1", v)
		return i
	}
	names := 1000
	if needs.IsLong() {
		names = 100_000
	}
	for name, tt := range map[string]struct {
		image  *rdmaimage.Image
		change func(dir string) error
		env    string
		want   finding.Severity
	}{
		"libibverbs is a link to /": {debian().Remove(lib("libibverbs.so.1")),
			func(dir string) error { return os.Symlink("/", filepath.Join(dir, lib("libibverbs.so.1"))) }, "",
			finding.NotSeen},
		"libibverbs is a FIFO": {debian().Remove(lib("libibverbs.so.1")),
			func(dir string) error { return unix.Mkfifo(filepath.Join(dir, lib("libibverbs.so.1")), 0o644) }, "",
			finding.NotSeen},
		"libibverbs is a loop": {debian().Remove(lib("libibverbs.so.1")),
			func(dir string) error {
				return os.Symlink("libibverbs.so.1", filepath.Join(dir, lib("libibverbs.so.1")))
			}, "", finding.NotSeen},
		"libibverbs is huge": {debian(), func(dir string) error {
			return os.Truncate(filepath.Join(dir, lib("libibverbs.so.1.0")), 1<<40)
		}, "", finding.NotSeen},
		"libibverbs is text": {debian(), func(dir string) error {
			return os.WriteFile(filepath.Join(dir, lib("libibverbs.so.1.0")), []byte("\x1b]0;x\x07"), 0o644)
		}, "", finding.NotSeen},
		"the cache is a FIFO": {debian(), func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "etc/ld.so.cache"), 0o644) },
			"", finding.NotSeen},
		"names outside": {withEtc(debian().Remove("etc/libibverbs.d")), func(dir string) error {
			return os.Symlink(outside, filepath.Join(dir, "etc/libibverbs.d"))
		}, "", finding.Error},
		"names above": {withEtc(debian().Remove("etc/libibverbs.d")), func(dir string) error {
			return os.Symlink("../../../../../../../.."+outside, filepath.Join(dir, "etc/libibverbs.d"))
		}, "", finding.Error},
		"a provider outside": {debian().Remove(debian().ProviderPath("mlx5")), func(dir string) error {
			return os.Symlink("/proc/self/root/etc/hostname", filepath.Join(dir, debian().ProviderPath("mlx5")))
		}, "", finding.Error},
		"too many names": {debian().Remove("etc/libibverbs.d/mlx5.driver"), func(dir string) error {
			for i := range names {
				if err := unix.Mknod(filepath.Join(dir, fmt.Sprintf("etc/libibverbs.d/%d.driver", i)), unix.S_IFREG|0o644, 0); err != nil {
					return err
				}
			}
			return nil
		}, "", finding.NotSeen},
		"an escape sequence": {escape("/\x1b[2J\x07/libibverbs.d"), nil, "", finding.Error},
		"a direction mark":   {escape("/\u202e/libibverbs.d"), nil, "", finding.Error},
		"a long name": {escape("/" + strings.Repeat("x", 3000) + "/libibverbs.d"), nil, "",
			finding.NotSeen},
		"an LD_LIBRARY_PATH of the host": {debian(), nil, "LD_LIBRARY_PATH=" + strings.Repeat("/proc/self/root/usr/lib:",
			1000), finding.OK},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tt.image.Make(t, dir)
			if tt.change != nil {
				must.NoError(t, tt.change(dir))
			}
			c := containerOf(t, dir, tt.env, "NCCL_IB_HCA=\x1b[1m", "UCX_NET_DEVICES=a\x07:1")
			checks := c.Check(mlx5)
			if got := provider(checks); got.Severity != tt.want {
				t.Errorf("%v, want %s", got, tt.want)
			}
			text, err := json.Marshal(checks)
			if err != nil || strings.Contains(string(text), secret) || len(text) > 8<<10 {
				t.Errorf("%d bytes, %v: %s", len(text), err, text)
			}
			for _, check := range checks {
				test.Less(t, 0, strings.IndexFunc(check.String(), func(r rune) bool { return r < ' ' || r > '~' }),
					test.Sprintf("printed raw: %q", check))
			}
			test.LessEq(t, 500, maxOpens-c.Root.opens, test.Sprint("files were looked"))
		})
	}
}

// TestOpens: what an image with five providers costs, in files that are looked at.
func TestOpens(t *testing.T) {
	dir := t.TempDir()
	rdmaimage.Debian("mlx5", "mlx4", "efa", "irdma", "rxe").Make(t, dir)
	c := containerOf(t, dir)
	if got := provider(c.Check(mlx5)); got.Severity != finding.OK {
		t.Errorf("%v", got)
	}
	test.LessEq(t, 20, maxOpens-c.Root.opens, test.Sprint("files were looked"))
}

// TestRemote: nothing on a file system that may not answer is opened, not even by a link, and what does not lead
// there is still checked.
func TestRemote(t *testing.T) {
	dir := t.TempDir()
	i := rdmaimage.Debian("mlx5")
	i.Files["net/x"] = ""
	i.Files["etc/ld.so.cache"] = string(elftest.LDConfig([][2]string{{"libother.so", "/x"}}))
	i.Make(t, dir)
	must.NoError(t, os.Symlink("../net/../net/x", filepath.Join(dir, "etc/away")))
	c := containerOf(t, dir)
	c.Root.remote = []string{"/net"}
	if got := provider(c.Check(mlx5)); got.Severity != finding.OK {
		t.Errorf("beside a remote mount: %v", got)
	}
	for _, name := range []string{"net", "/net/x", "etc/../net/x", "etc/away"} {
		if _, err := c.Root.path(name); !errors.Is(err, errRemote) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Root.remote = []string{"/usr/lib"}
	if got := provider(c.Check(mlx5)); got.Severity != finding.NotSeen {
		t.Errorf("libraries on a remote mount: %v", got)
	}
}

func TestMounts(t *testing.T) {
	const text = `24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda rw
30 24 0:40 / /net\040fs rw - nfs4 srv:/x rw
31 24 0:41 / /run/c1/rootfs rw - overlay overlay rw,lowerdir=/var/l/2:/var/l/1,upperdir=/var/l/3/fs,workdir=/var/l/3/work
32 24 0:42 / /run/c2/rootfs rw - overlay overlay rw,lowerdir=/net\040fs/l:/var/l/1
33 24 0:43 / /run/c3/rootfs rw - overlay overlay rw,lowerdir=2/fs:l/1/fs,upperdir=/lazy/snapshots/3/fs
34 24 0:44 / /lazy/snapshots/l/1 rw - fuse.stargz stargz rw
35 24 0:45 / /run/c1/rootfs/data rw - fuse.lustre x rw
36 24 0:46 / /auto rw - autofs systemd-1 rw
37 24 0:47 / /run/c1/rootfs/usr rw - overlay overlay rw,lowerdir=/gone,upperdir=/var/l/4/fs
damaged
`
	const composefs = "24 1 0:9 / / ro - overlay composefs ro,lowerdir=/run/x\n" +
		"40 24 0:9 /usr/lib64/libibverbs.so.1 /run/c4/rootfs/usr/lib64/libibverbs.so.1 ro - overlay composefs " +
		"ro,lowerdir=/run/x\n"
	if got := remotePoints(composefs, composefs, "/run/c4/rootfs"); len(got) > 0 {
		t.Errorf("libraries of the host, whose root is an overlay, are remote: %q", got)
	}
	const far = "/lazy/snapshots/l/1 /run/c1/rootfs/data /auto /run/c1/rootfs/usr"
	for root, want := range map[string]string{
		"/run/c1/rootfs": "/net fs /run/c2/rootfs /run/c3/rootfs " + far,
		"/run/c2/rootfs": "/net fs /run/c1/rootfs /run/c2/rootfs /run/c3/rootfs " + far, // over a file system of the network
	} {
		test.Eq(t, want, strings.Join(remotePoints(text, text, root), " "), test.Sprintf("remote of %s", root))
	}
}

func FuzzBundle(f *testing.F) {
	f.Add([]byte(`{"process":{"user":{"uid":1000,"additionalGids":[1]},"env":["NCCL_IB_HCA=a,b"],"rlimits":[{"type":"RLIMIT_MEMLOCK","soft":1}]},` +
		`"root":{"path":"rootfs"},"annotations":{"a":"b"}}`))
	f.Add([]byte(`{"root":{"path":"/"},"process":{"env":["LD_LIBRARY_PATH=:::"]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := parseBundle(data)
		if err != nil {
			return
		}
		p := b.process()
		e := p.environment()
		if len(e.libraryPath()) > maxLibraryPath || len(ncclNames(e.get("NCCL_IB_HCA"))) > maxNames {
			t.Errorf("%d directories", len(e.libraryPath()))
		}
	})
}

func FuzzMounts(f *testing.F) {
	f.Add("24 1 8:1 / / rw - ext4 /dev/sda rw\n31 24 0:41 / /a rw - overlay o rw,lowerdir=a:b,upperdir=c\n1 2 3 / /n r - nfs x y")
	f.Fuzz(func(t *testing.T, text string) {
		for m := range mountinfo.Parse(text) {
			if !strings.HasPrefix(m.Point, "/") {
				t.Errorf("%q: mounted at %q", text, m.Point)
			}
		}
		remotePoints(text, text, "/")
	})
}
