package vm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// The product as its user has it: from the package and the documents' five commands to
// traffic, then cdi-gen watch, its optional parts, and doctor, on a real kernel.
func TestProduct(t *testing.T) {
	t.Parallel() // its machine has one CPU
	v := vmtest.Open(t)
	checkout, err := deploy.FindCheckout()
	must.NoError(t, err)
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "commands"), []byte(quickStart(t, string(checkout))), 0o644))
	pack := exec.CommandContext(t.Context(), filepath.Join(string(checkout), "packaging/dist.sh"), "v1.0.0", dir)
	pack.Env = append(os.Environ(), "ARCHES=amd64", "PLATFORMS=", "IMAGES=")
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("make the package: %v\n%s", err, out)
	}
	vmtest.Run(t, v, "./inside/product", vm.Cmd{
		Dir: dir, Devices: []vm.Device{{Name: "rxe0", Netdev: "eth0"}, {Name: "rxe1", Netdev: "dummy0"}}, MemoryMB: 2048, Timeout: 30 * time.Minute,
		Shares: []vm.Share{{Path: dir}, {Path: filepath.Dir(v.Tools()), ReadOnly: true}},
		Env:    []string{"TOOLS_ARCHIVE=" + v.Tools()},
	})
}

// quickStart returns the commands that lead to traffic, from the documents that have
// them, which must agree.
func quickStart(t *testing.T, checkout string) string {
	t.Helper()
	commands := ""
	for _, name := range []string{"README.md", "docs/quickstart-podman.md"} {
		data, err := os.ReadFile(filepath.Join(checkout, name))
		must.NoError(t, err)
		block := fencedBlock(string(data), "ib_write_bw localhost")
		if commands != "" && block != "" && block != commands {
			t.Fatalf("the commands of %s differ from README.md's:\n%s\n%s", name, block, commands)
		}
		if block != "" {
			commands = block
		}
	}
	must.NotEq(t, "", commands, must.Sprint("no document has the commands of the quick start"))
	return commands
}

// fencedBlock is the first block of shell commands that has the words, empty if none has.
func fencedBlock(text, words string) string {
	for {
		_, rest, ok := strings.Cut(text, "\n```sh\n")
		if !ok {
			return ""
		}
		block, after, _ := strings.Cut(rest, "\n```\n")
		if strings.Contains(block, words) {
			return block + "\n"
		}
		text = after
	}
}
