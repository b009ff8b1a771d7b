// Package product holds tests that run inside the virtual machine: cdi-gen on a real
// RDMA kernel as a person uses it, from the package to traffic, and as a service that
// follows devices and finds faults.
package product

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// The working directory has the package of cdi-gen and the commands of the documents;
// the test outside asked for the devices rxe0 on eth0 and rxe1 on dummy0.
const (
	packageFile  = "cdi-gen_*_amd64.deb"
	commandsFile = "commands"

	specDir  = "/etc/cdi"
	specFile = specDir + "/rdma.dev-hca.yaml"
	// toolsImage is the name that the documents use for an image with perftest.
	toolsImage = "rdma-tools"
)

func TestMain(m *testing.M) {
	vmtest.Guard()
	if err := inside.SetUpPodman(); err != nil {
		fmt.Fprintln(os.Stderr, "set up the guest:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestProduct runs its parts in this order: the first wants a machine on which nothing
// has been done. Each of the others can run alone.
func TestProduct(t *testing.T) {
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"quick start", quickStart},
		{"watch", watch},
		{"management nodes", managementNodes},
		{"user space of the host", hostUserspace},
		{"doctor", diagnose},
		{"locked memory", lockedMemory},
	} {
		t.Run(part.name, part.run)
	}
}

// install installs the package and the image, unless an earlier part has.
func install(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("cdi-gen"); err != nil {
		files, err := filepath.Glob(packageFile)
		if err != nil || len(files) != 1 {
			t.Fatalf("find the package %s: %v, %v", packageFile, files, err)
		}
		inside.Must(t, "dpkg", "--install", files[0])
	}
	loadImage(t)
}

// loadImage gives podman the image that a user would have pulled or built.
func loadImage(t *testing.T) {
	t.Helper()
	if inside.Run("podman", "image", "exists", toolsImage).Code != 0 {
		inside.Must(t, "podman", "load", "--quiet", "--input", os.Getenv("TOOLS_ARCHIVE"))
		inside.Must(t, "podman", "tag", vm.ToolsImage, toolsImage)
	}
}

// contain runs a shell script in a container, as an ordinary user without capabilities
// if the options do not say otherwise, and returns what it said.
func contain(image, script string, options ...string) inside.Result {
	argv := []string{"podman", "run", "--rm", "--network", "none", "--user", "1000", "--cap-drop", "all"}
	return inside.Run(append(append(argv, options...), image, "sh", "-c", script)...)
}
