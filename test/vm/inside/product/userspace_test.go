package product

import (
	"archive/tar"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// bareImage has programs that were linked with libibverbs, and no libibverbs.
const bareImage = "localhost/bare:vm"

// bareFiles are all the files of the image: a shell, glibc, and the programs.
var bareFiles = []string{
	"/bin/busybox", "/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6",
	"/usr/bin/ibv_devices", "/usr/bin/ibv_rc_pingpong",
}

// hostUserspace runs RDMA programs in an image without rdma-core.
func hostUserspace(t *testing.T) {
	install(t)
	importBare(t)
	inside.Must(t, "cdi-gen", "generate", "--output", specDir)
	const spec = specDir + "/host.yaml"
	t.Log(inside.Must(t, "cdi-gen", "generate", "--userspace", "host", "--kind", "rdma.dev/host", "--target", "podman-4.3", "--output", spec))
	t.Cleanup(func() { os.Remove(spec) })

	t.Run("its own", func(t *testing.T) {
		r := contain(bareImage, "ibv_devices", "--device", "rdma.dev/hca=rxe0")
		if r.Code == 0 {
			t.Error("the program starts")
		}
		inside.Wants(t, "container", r.Out, "error while loading shared libraries: libibverbs.so.1")
	})
	t.Run("the host's", func(t *testing.T) {
		r := contain(bareImage, usesVerbs, "--device", "rdma.dev/host=rxe1")
		t.Log(r.Out)
		if r.Code != 0 {
			t.Errorf("status %d", r.Code)
		}
		inside.Wants(t, "container", r.Out, "devices: rxe1 \n", "5 iters in", "the mounts are read-only")
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

// importBare makes the image from the guest's own files.
func importBare(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bare.tar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	applets, err := exec.Command("busybox", "--list").Output()
	if err == nil {
		err = writeBare(tar.NewWriter(f), strings.Fields(string(applets)))
	}
	if err != nil {
		t.Fatalf("make an image: %v", err)
	}
	inside.Must(t, "podman", "import", "--quiet", "--change", "ENV PATH=/usr/bin:/bin", path, bareImage)
	t.Cleanup(func() { inside.Must(t, "podman", "rmi", "--force", bareImage) })
}

func writeBare(w *tar.Writer, applets []string) error {
	var errs []error
	for _, dir := range []string{"bin", "dev", "etc", "proc", "sys", "tmp"} {
		errs = append(errs, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}))
	}
	for _, path := range bareFiles {
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
