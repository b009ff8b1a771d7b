// Package limits holds tests that run inside the virtual machine: what a container may
// use of an RDMA device, on a real RDMA kernel, with the hook in podman's containers.
package limits

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

const (
	toolsImage = vm.ToolsImage
	hookPath   = "/usr/bin/rdma-hook"
	// userPath is this program, mounted into containers as a user of verbs.
	userPath = "/usr/bin/verbs-user"
	// reports is where every hook here leaves its report, and words where users of
	// verbs leave what they have to say; containers see it under the same path.
	reports, words = "/run/reports", "/run/words"
)

// The test outside asked for the devices rxe0 and rxe1, and put rdma-hook into the
// working directory.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == userRole {
		if err := useVerbs(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	vmtest.Guard()
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "set up the guest:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func setUp() error {
	self, err := os.Executable()
	errs := []error{err, inside.SetUpPodman(), inside.Install(map[string]string{"rdma-hook": hookPath, self: userPath})}
	errs = append(errs, os.MkdirAll("/etc/cdi", 0o755), os.Mkdir(reports, 0o777), os.Chmod(reports, 0o777), os.Mkdir(words, 0o777), os.Chmod(words, 0o777))
	for class, devices := range map[string]string{
		"limited": device("tight", "rxe0:handles=1,objects=3") + "," + device("wide", "rxe0:handles=4,objects=20") + "," +
			device("both", "rxe0:handles=1", "rxe1:handles=2"),
		"other": device("tight", "rxe0:handles=2,objects=2") + "," + device("free"),
	} {
		spec := fmt.Sprintf(`{"cdiVersion": "0.3.0", "kind": "rdma.dev/%s", "devices": [%s]}`, class, devices)
		errs = append(errs, os.WriteFile("/etc/cdi/"+class+".json", []byte(spec), 0o644))
	}
	if r := inside.Run("podman", "load", "--quiet", "--input", os.Getenv("TOOLS_ARCHIVE")); r.Code != 0 {
		errs = append(errs, fmt.Errorf("podman load: status %d: %s", r.Code, r.Out))
	}
	return errors.Join(errs...)
}

// device is a device of a CDI spec as pkg/cdi makes it: nodes, and a hook of its own if
// it has limits.
func device(name string, limits ...string) string {
	args := []string{`"rdma-hook"`, `"--memlock"`, `"unlimited"`, `"--report"`, `"` + reports + `"`}
	for _, l := range limits {
		args = append(args, `"--limit"`, `"`+l+`"`)
	}
	return fmt.Sprintf(`{"name": %q, "containerEdits": {
		"deviceNodes": [{"path": "/dev/infiniband/uverbs0", "permissions": "rw"}, {"path": "/dev/infiniband/uverbs1", "permissions": "rw"}, {"path": "/dev/infiniband/rdma_cm", "permissions": "rw"}],
		"hooks": [{"hookName": "createRuntime", "path": %q, "args": [%s], "env": ["GOMAXPROCS=1"], "timeout": 10}]}}`,
		name, hookPath, strings.Join(args, ", "))
}
