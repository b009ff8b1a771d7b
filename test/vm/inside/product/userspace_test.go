package product

import (
	"archive/tar"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// bareImage has programs that were linked with libibverbs, and no libibverbs.
const bareImage = "localhost/bare:vm"

// bareFiles are all the files of the image: a shell, glibc, and the programs.
var bareFiles = []string{
	"/bin/busybox", "/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6",
	"/usr/bin/ibv_devices", "/usr/bin/ibv_rc_pingpong",
}

// noProviderImage also has libibverbs, and no provider.
const noProviderImage = "localhost/no-provider:vm"

var verbsFiles = []string{
	"/usr/lib/x86_64-linux-gnu/libibverbs.so.1", "/usr/lib/x86_64-linux-gnu/libnl-3.so.200",
	"/usr/lib/x86_64-linux-gnu/libnl-route-3.so.200",
}

// lastContainer is the report of the hook about the last container.
const lastContainer = "/run/rdma.dev/last-container.json"

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must.NoError(t, err)
	return string(data)
}

// hostUserspace runs RDMA programs in an image without rdma-core.
func hostUserspace(t *testing.T) {
	install(t)
	importImage(t, bareImage, bareFiles)
	importImage(t, noProviderImage, append(slices.Clone(bareFiles), verbsFiles...))
	inside.Must(t, "cdi-gen", "generate", "--to", specDir)
	const spec = specDir + "/host.yaml"
	t.Log(inside.Must(t, "cdi-gen", "generate", "--userspace", "host", "--kind", "rdma.dev/host", "--target", "podman-4.3", "--to", spec))
	t.Cleanup(func() { os.Remove(spec) })

	t.Run("its own", func(t *testing.T) {
		r := contain(bareImage, "ibv_devices", "--device", "rdma.dev/hca=rxe0")
		test.NotEq(t, 0, r.Code, test.Sprint("the program starts"))
		inside.Wants(t, "container", r.Out, "error while loading shared libraries: libibverbs.so.1")
		if d := doctor(t); d.find("container-unusable", "") != nil {
			t.Errorf("an image without libibverbs is not checked, but doctor says %v", d)
		}
	})
	t.Run("no provider", func(t *testing.T) {
		r := contain(noProviderImage, "ibv_devices | tail -n +3; echo listed", "--device", "rdma.dev/hca=rxe0")
		t.Log(r.Out)
		test.StrNotContains(t, r.Out, "rxe0 ", test.Sprint("the program lists the device"))
		if d := doctor(t); d.find("container-unusable", "rxe0") == nil {
			t.Errorf("doctor does not say that the image has no provider for rxe0: %v\n%s", d, read(t, lastContainer))
		}
	})
	t.Run("the host's", func(t *testing.T) {
		r := contain(bareImage, usesVerbs, "--device", "rdma.dev/host=rxe1")
		t.Log(r.Out)
		test.Eq(t, 0, r.Code, test.Sprint("status"))
		inside.Wants(t, "container", r.Out, "devices: rxe1 \n", "5 iters in", "the mounts are read-only")
		if d := doctor(t); d.find("container-unusable", "") != nil || d.find("container-ok", "") == nil {
			t.Errorf("traffic runs, but doctor says %v\n%s", d, read(t, lastContainer))
		}
	})
}

// usesVerbs lists the devices, sends something through the only one, and looks how the
// libraries are mounted.
const usesVerbs = `set -e
echo "devices: $(ibv_devices | tail -n +3 | awk '{printf "%s ", $1}')"
ibv_rc_pingpong -d rxe1 -g 1 -n 5 >/dev/null &
n=0; until netstat -ltn | grep -q ":18515 "; do n=$((n+1)); [ $n -lt 300 ]; sleep 0.1; done
ibv_rc_pingpong -d rxe1 -g 1 -n 5 127.0.0.1
wait
grep -q ' /usr/lib/x86_64-linux-gnu/libibverbs.so.1 ro[, ]' /proc/self/mountinfo && echo the mounts are read-only
`

// importImage makes an image from the guest's own files.
func importImage(t *testing.T, name string, files []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bare.tar")
	f, err := os.Create(path)
	must.NoError(t, err)
	defer f.Close()
	applets, err := exec.Command("busybox", "--list").Output()
	if err == nil {
		err = writeImage(tar.NewWriter(f), files, strings.Fields(string(applets)))
	}
	must.NoError(t, err, must.Sprint("make an image"))
	inside.Must(t, "podman", "import", "--quiet", "--change", "ENV PATH=/usr/bin:/bin", path, name)
	t.Cleanup(func() { inside.Must(t, "podman", "rmi", "--force", name) })
}

func writeImage(w *tar.Writer, files, applets []string) error {
	var errs []error
	for _, dir := range []string{"bin", "dev", "etc", "proc", "sys", "tmp"} {
		errs = append(errs, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}))
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		errs = append(errs, err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path[1:], Mode: 0o755, Size: int64(len(data))}))
		_, err = w.Write(data)
		errs = append(errs, err)
	}
	for _, applet := range applets {
		if applet != "busybox" {
			errs = append(errs, w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox", Mode: 0o777}))
		}
	}
	return errors.Join(append(errs, w.Close())...)
}
