// Package runtimes holds tests that run inside the virtual machine: cdi-gen's specs on a
// real RDMA kernel, in podman, containerd and rootless podman, with real traffic.
package runtimes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// What the tests find in the guest: the programs in the working directory, and RDMA
// devices that the test outside asked for.
const (
	toolsImage = vm.ToolsImage
	specDir    = "/etc/cdi"
	// hookPath is where a package puts the hook.
	hookPath = "/usr/bin/rdma-hook"

	// The addresses of the first and of the third device.
	rxe0Address = "10.77.1.1"
	siw0Address = "10.77.3.1"
)

func TestMain(m *testing.M) {
	vmtest.Guard()
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "set up the guest:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// setUp installs cdi-gen and the hook and writes the spec, as a user would, and loads
// the image.
func setUp() error {
	programs := map[string]string{"cdi-gen": "/usr/bin/cdi-gen", "rdma-hook": hookPath}
	if err := errors.Join(inside.Install(programs), inside.SetUpPodman()); err != nil {
		return err
	}
	for _, argv := range [][]string{
		{"cdi-gen", "generate", "--to", specDir},
		{"podman", "load", "--input", os.Getenv("TOOLS_ARCHIVE")},
	} {
		if r := inside.Run(argv...); r.Code != 0 {
			return fmt.Errorf("%s: status %d: %s", strings.Join(argv, " "), r.Code, r.Out)
		}
	}
	return nil
}

// stdout runs a command that has to succeed, and returns its standard output.
func stdout(t *testing.T, argv ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	must.NoError(t, err, must.Sprintf("%s: %v\n%s", strings.Join(argv, " "), err, &stderr))
	return string(out)
}

// uverbs is the node of an ibdev, by the kernel's own word.
func uverbs(t *testing.T, ibdev string) string {
	t.Helper()
	return inside.Node(t, "infiniband_verbs", ibdev)
}

// number is the device number of a node as mknod takes it: "231 192".
func number(t *testing.T, class, node string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/sys/class", class, node, "dev"))
	must.NoError(t, err)
	return strings.Replace(strings.TrimSpace(string(data)), ":", " ", 1)
}
