package userspace

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/rdmacore"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/elftest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// These tests start real containers with runc on root file systems that lack
// libibverbs, and look whether a program that links it starts. The image of Debian
// has this machine's libc and dynamic linker; that of RHEL has them too, but in
// /usr/lib64, and the directories compiled into the dynamic linker overwritten.

// requirements are what containers need.
func requirements(t *testing.T) {
	t.Helper()
	needs.Root(t, "containers")
	for _, program := range []string{"runc", "gcc"} {
		needs.Program(t, program, "apt-get install runc gcc libc6-dev")
	}
	// The container's user is not the one of the test, whose umask may keep others out.
	before := syscall.Umask(0o022)
	t.Cleanup(func() { syscall.Umask(before) })
}

// TestContainer starts an application in images of both families.
func TestContainer(t *testing.T) {
	requirements(t)
	here := thisMachine(t)
	hostRoot := t.TempDir()
	app := compileHost(t, hostRoot, here)
	plan, err := Find(os.DirFS(hostRoot).(fs.ReadLinkFS),
		Options{Machine: here.machine, Drivers: []string{"mlx5_core", "rxe"}})
	must.NoError(t, err)
	for _, tt := range []struct {
		name, image string
		dir         string // where the image's dynamic linker looks
	}{
		{"debian", here.debianImage(t, app), "/usr/lib/" + here.Triplet},
		{"rhel", here.rhelImage(t, app), "/usr/lib64"},
		{"own rdma-core", ownRDMACore(t, here, here.debianImage(t, app)), "/usr/lib/" + here.Triplet},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := container{image: tt.image, hostRoot: hostRoot, mounts: plan.Mounts}
			out, err := c.run(t)
			// Each provider is there once: libmlx5, by SONAME and by path, is one.
			if err != nil || strings.Count(out, "provider mlx5\n") != 1 || strings.Count(out, "provider rxe\n") != 1 ||
				strings.Contains(out, "couldn't") {
				t.Errorf("with the plan: %v, output %q", err, out)
			}
			const fails = "error while loading shared libraries"
			c.mounts = nil
			if out, err := c.run(t); err == nil || !strings.Contains(out, fails) {
				t.Errorf("without the plan: %v, output %q", err, out)
			}
			c.mounts = slices.DeleteFunc(slices.Clone(plan.Mounts),
				func(m cdi.Mount) bool { return path.Dir(m.ContainerPath) == tt.dir })
			if out, err := c.run(t); err == nil || !strings.Contains(out, fails) {
				t.Errorf("with the plan, less %s: %v, output %q", tt.dir, err, out)
			}
		})
	}
}

// machine is what a test needs to know of the machine it runs on.
type machine struct {
	rdmacore.Layout
	host
	libc, loader string // files
}

// thisMachine skips machines whose libc is not where Debian and Ubuntu have it.
func thisMachine(t *testing.T) machine {
	t.Helper()
	for m, l := range rdmacore.Layouts {
		if goarch := map[string]string{"x86-64": "amd64", "arm64": "arm64"}[l.Name]; goarch != runtime.GOARCH {
			continue
		}
		dir := "/lib/" + l.Triplet
		loaders, _ := filepath.Glob(dir + "/ld-linux-*.so.*")
		if len(loaders) == 1 {
			return machine{l, host{machine: m}, dir + "/libc.so.6", loaders[0]}
		}
	}
	t.Skip("this test needs the libc of Debian or Ubuntu on amd64 or arm64")
	return machine{}
}

// compileHost makes a host with a small rdma-core in a directory, and returns an
// application that was linked there.
func compileHost(t *testing.T, root string, here machine) string {
	t.Helper()
	dir := filepath.Join(root, "usr/lib", here.Triplet)
	provider := "/usr/lib/" + here.Triplet + "/libibverbs"
	mkdir(t, filepath.Join(root, provider), filepath.Join(root, "etc/libibverbs.d"))
	copyFile(t, here.libc, filepath.Join(dir, "libc.so.6"), nil)
	shared := func(name, source string, args ...string) {
		soname := "-Wl,-soname," + name
		compile(t, append([]string{"-shared", "-fPIC", soname, "-o", filepath.Join(dir, name), source, "-Wl,--no-as-needed"},
			args...)...)
	}
	lib := func(name string) string { return filepath.Join(dir, name) }
	shared("libnl-3.so.200", "nothing.c")
	shared("libnl-route-3.so.200", "nothing.c", lib("libnl-3.so.200"))
	shared("libibverbs.so.1", "libibverbs.c", `-DPROVIDER_DIR="`+provider+`"`, "-Wl,--version-script,libibverbs.map",
		lib("libnl-route-3.so.200"), lib("libnl-3.so.200"))
	shared("librdmacm.so.1", "nothing.c", lib("libibverbs.so.1"))
	shared("libmlx5.so.1", "provider.c", `-DNAME="mlx5"`, lib("libibverbs.so.1"))
	shared("librxe.so", "provider.c", `-DNAME="rxe"`, lib("libibverbs.so.1"))
	symlink(t, "../libmlx5.so.1", filepath.Join(root, provider, "libmlx5-rdmav34.so"))
	must.NoError(t, os.Rename(lib("librxe.so"), filepath.Join(root, provider, "librxe-rdmav34.so")))
	for _, name := range []string{"mlx5", "rxe"} {
		write(t, filepath.Join(root, "etc/libibverbs.d", name+".driver"), "driver "+name+"\n")
	}
	app := filepath.Join(t.TempDir(), "app")
	compile(t, "-o", app, "main.c", lib("libmlx5.so.1"), lib("libibverbs.so.1"), "-Wl,--allow-shlib-undefined",
		"-Wl,-rpath-link,"+dir)
	return app
}

func compile(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("gcc", args...)
	cmd.Dir = "testdata/src"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// debianImage makes an image with a merged /usr, the libc in the multiarch
// directory, and the application as /app.
func (m machine) debianImage(t *testing.T, app string) string {
	t.Helper()
	root := t.TempDir()
	lib := filepath.Join(root, "usr/lib", m.Triplet)
	mkdir(t, lib, filepath.Join(root, "usr/lib64"))
	symlink(t, "usr/lib", filepath.Join(root, "lib"))
	symlink(t, "usr/lib64", filepath.Join(root, "lib64"))
	copyFile(t, m.libc, filepath.Join(lib, "libc.so.6"), nil)
	copyFile(t, m.loader, m.interpreter(root), nil)
	copyFile(t, app, filepath.Join(root, "app"), nil)
	return root
}

// rhelImage makes an image with everything in /usr/lib64, whose dynamic linker
// searches there alone.
func (m machine) rhelImage(t *testing.T, app string) string {
	t.Helper()
	root := m.debianImage(t, app)
	if err := os.Rename(filepath.Join(root, "usr/lib", m.Triplet, "libc.so.6"),
		filepath.Join(root, "usr/lib64/libc.so.6")); err != nil {
		t.Fatal(err)
	}
	copyFile(t, m.loader, m.interpreter(root), func(data []byte) []byte {
		debian, rhel := m.compiledIn()
		if !bytes.Contains(data, debian) {
			t.Skip("this machine's dynamic linker has other directories than Debian's compiled in")
		}
		return bytes.ReplaceAll(data, debian, rhel) // for loading and for --list-diagnostics
	})
	return root
}

// interpreter is the path of the dynamic linker that programs have.
func (m machine) interpreter(root string) string {
	dir := "usr/lib64"
	if m.Layout.Name == "arm64" {
		dir = "usr/lib"
	}
	return filepath.Join(root, dir, filepath.Base(m.loader))
}

// compiledIn is the list of directories in Debian's dynamic linker, and one of the
// same lengths with /lib64 and /usr/lib64: slashes do not count. The last two, which
// RHEL's lacks, lead nowhere.
func (m machine) compiledIn() (debian, rhel []byte) {
	pad := func(dir string, n int) string { return dir + strings.Repeat("/", n-len(dir)) + "\x00" }
	a, b := "/lib/"+m.Triplet+"/", "/usr/lib/"+m.Triplet+"/"
	debian = []byte(a + "\x00" + b + "\x00/lib/\x00/usr/lib/\x00")
	rhel = []byte(pad("/lib64", len(a)) + pad("/usr/lib64", len(b)) + "/nil/\x00/nil/lib/\x00")
	return debian, rhel
}

// ownRDMACore gives an image an rdma-core of another private ABI, with versioned
// files behind links. If any of it were used, the application would not start.
func ownRDMACore(t *testing.T, here machine, image string) string {
	t.Helper()
	dir := filepath.Join(image, "usr/lib", here.Triplet)
	mkdir(t, filepath.Join(dir, "libibverbs"), filepath.Join(image, "etc/libibverbs.d"))
	for _, soname := range []string{"libibverbs.so.1", "libmlx5.so.1", "libnl-3.so.200"} {
		data := elftest.Lib{Machine: here.machine, SOName: soname, Defines: []string{"IBVERBS_PRIVATE_25"}}.Build()
		write(t, filepath.Join(dir, soname+".25"), string(data))
		symlink(t, soname+".25", filepath.Join(dir, soname))
	}
	symlink(t, "../libmlx5.so.1.25", filepath.Join(dir, "libibverbs/libmlx5-rdmav25.so"))
	write(t, filepath.Join(image, "etc/libibverbs.d/old.driver"), "driver old\n")
	return image
}

// container runs /app of an image, or a command, as user 1000.
type container struct {
	image    string
	hostRoot string      // of the mounts
	mounts   []cdi.Mount // of a plan
	args     []string
	env      []string
	binds    []cdi.Mount // with paths of this machine
}

func (c container) run(t *testing.T) (output string, err error) {
	t.Helper()
	bundle := t.TempDir()
	config, err := json.Marshal(c.config())
	must.NoError(t, err)
	write(t, filepath.Join(bundle, "config.json"), string(config))
	// The name is short and unique: the directories of a test are.
	id := "userspace" + strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, bundle)
	cmd := exec.Command("runc", "--root", t.TempDir(), "run", "--bundle", bundle, id)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// object of the OCI runtime spec.
type oci = map[string]any

func (c container) config() oci {
	args := c.args
	if args == nil {
		args = []string{"/app"}
	}
	bind := func(from, to string) oci {
		return oci{"destination": to, "source": from, "type": "bind", "options": []string{"bind", "ro", "nosuid", "nodev"}}
	}
	mounts := []oci{{"destination": "/proc", "type": "proc", "source": "proc"},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}}
	for _, m := range c.binds {
		mounts = append(mounts, bind(m.HostPath, m.ContainerPath))
	}
	for _, m := range c.mounts {
		mounts = append(mounts, bind(c.hostRoot+m.HostPath, m.ContainerPath))
	}
	return oci{
		"ociVersion": "1.0.2",
		"root":       oci{"path": c.image, "readonly": true},
		"process":    oci{"user": oci{"uid": 1000, "gid": 1000}, "args": args, "env": c.env, "cwd": "/"},
		"mounts":     mounts,
		"linux":      oci{"namespaces": []oci{{"type": "mount"}, {"type": "pid"}, {"type": "network"}}},
	}
}

func mkdir(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		must.NoError(t, os.MkdirAll(dir, 0o755))
	}
}

func symlink(t *testing.T, target, name string) {
	t.Helper()
	must.NoError(t, os.Symlink(target, name))
}

func write(t *testing.T, name, data string) {
	t.Helper()
	must.NoError(t, os.WriteFile(name, []byte(data), 0o644))
}

// copyFile copies a program or library, through edit if there is one.
func copyFile(t *testing.T, from, to string, edit func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(from)
	must.NoError(t, err)
	if edit != nil {
		data = edit(data)
	}
	must.NoError(t, os.WriteFile(to, data, 0o755))
}
