package vm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	promtest "github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/prometheus"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// devices are what the tests inside know by name and address.
var devices = []vm.Device{{Name: "rxe0", Netdev: "eth0"}, {Name: "rxe1", Netdev: "dummy0"}, {Name: "siw0", Netdev: "dummy1"}}

// compile builds programs of the project for the guest.
func compile(t *testing.T, programs ...string) (dir string) {
	t.Helper()
	return compileVersion(t, "", programs...)
}

// compileVersion builds programs of the project that have a version.
func compileVersion(t *testing.T, version string, programs ...string) (dir string) {
	t.Helper()
	checkout, err := deploy.FindCheckout()
	must.NoError(t, err)
	dir = t.TempDir()
	// Without symbols: the guest hashes and unpacks what it runs.
	flags := "-ldflags=-s -w -X github.com/rdma-dev/dra-driver-rdma/internal/base/version.Version=" + version
	args := []string{"build", "-trimpath", "-buildvcs=false", "-tags=grpcnotrace", flags, "-o", dir + "/"}
	for _, p := range programs {
		args = append(args, "./cmd/"+p)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = string(checkout)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compile %s: %v\n%s", strings.Join(programs, " "), err, out)
	}
	return dir
}

// clusterPrograms builds the programs of the embedded cluster where the cache lacks
// them; it returns the directory that holds them all, and a PATH.
func clusterPrograms(t *testing.T) (dir, path string) {
	t.Helper()
	path, err := cluster.Build(t.Context(), cluster.Options{Progress: t.Output()})
	must.NoError(t, err)
	cache, err := cluster.DefaultCacheDir()
	must.NoError(t, err)
	return filepath.Join(cache, "bin"), path
}

// cdi-gen, podman as root and rootless, containerd and Docker, with real traffic.
func TestRuntimes(t *testing.T) {
	t.Parallel() // its machine has one CPU
	v := vmtest.Open(t)
	bin, path := clusterPrograms(t)
	docker, err := cluster.BuildDocker(t.Context(), cluster.Options{Progress: t.Output()})
	must.NoError(t, err)
	checkout, err := deploy.FindCheckout()
	must.NoError(t, err)
	image, programs := builtImage(t, checkout), compile(t, "cdi-gen", "rdma-hook")
	vmtest.Run(t, v, "./inside/runtimes", vm.Cmd{
		Dir: programs, Devices: devices, MemoryMB: 2048, Timeout: 30 * time.Minute,
		Shares: []vm.Share{{Path: programs}, {Path: bin, ReadOnly: true}, {Path: filepath.Dir(v.Tools()), ReadOnly: true},
			{Path: filepath.Dir(image), ReadOnly: true}},
		Env: []string{"TOOLS_ARCHIVE=" + v.Tools(), "CLUSTER_PATH=" + path, "DOCKER_PATH=" + docker,
			"DRIVER_ARCHIVE=" + image, "DRIVER_IMAGE=" + deploy.ImageName + ":" + deploy.ImageTag},
	})
}

// metricsAddress is the node's, which the driver's pod has too.
const metricsAddress = "127.0.0.1:9485"

// The driver on a node with a real RDMA kernel, with traffic between two containers of a pod,
// and Prometheus, which is the host's. What a test does shows without delay.
func TestCluster(t *testing.T) {
	needs.Long(t, "TestTwoNodes has traffic between pods of two nodes, and TestRuntimes containers on a real kernel")
	dir := t.TempDir()
	prometheus := filepath.Join(dir, "prometheus")
	copyFile(t, promtest.Program(t, "prometheus"), prometheus)
	onNode(t, "./inside/cluster", cluster.Options{}, vm.Cmd{
		Devices: devices[:2],
		Shares:  []vm.Share{{Path: dir, ReadOnly: true}},
		Env:     []string{"PROMETHEUS=" + prometheus, "METRICS=" + metricsAddress},
	}, "config.health.downAfter=0s", "config.health.upAfter=0s", "config.publishInterval=0s",
		"metrics.enabled=true", "metrics.bindAddress="+metricsAddress)
}

// copyFile copies a program. The guest shares directories, and none of the system's own.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	must.NoError(t, err)
	must.NoError(t, os.WriteFile(to, data, 0o755))
}

// builtImage is the driver's image as `make testbed-image` left it.
func builtImage(t *testing.T, checkout deploy.Checkout) string {
	t.Helper()
	must.FileExists(t, checkout.Image(), must.Sprint("run: make testbed-image"))
	return checkout.Image()
}

// driverImage builds an image of the driver beside that of make image. The tag is also the driver's version.
func driverImage(t *testing.T, checkout deploy.Checkout, tag string) string {
	t.Helper()
	programs := compileVersion(t, tag, "dra-driver", "rdma-hook")
	archive := filepath.Join(t.TempDir(), "image.tar")
	cmd := exec.CommandContext(t.Context(), filepath.Join(string(checkout), "packaging/image.sh"),
		deploy.ImageName+":"+tag, archive, filepath.Join(programs, "dra-driver"), filepath.Join(programs, "rdma-hook"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the driver's image: %v\n%s", err, out)
	}
	return archive
}
