package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
)

// TestARM64: the programs for arm64 run, and describe a host as those for amd64 do. QEMU emulates the processor, and
// hands system calls to this kernel.
func TestARM64(t *testing.T) {
	if os.Getenv("TEST_LONG") == "" {
		t.Skip("a second architecture, 32 s of processor time: runs with TEST_LONG=1. TestReproducible compiles for it")
	}
	qemu := need(t, "qemu-aarch64-static", "qemu-user-static")
	dir, _ := packages(t)
	host := filepath.Join(t.TempDir(), "host")
	tool(t, "go", "-C", checkout, "run", "./tools/machine", "extract", "roce-lag", host)
	specs := map[string]string{}
	for _, arch := range arches {
		bin := t.TempDir()
		unpack(t, filepath.Join(dir, "cdi-gen_1.2.3_linux_"+arch+".tar.gz"), bin)
		run := func(program string, args ...string) string {
			path := filepath.Join(bin, "cdi-gen_1.2.3_linux_"+arch, "bin", program)
			if arch == "arm64" {
				return tool(t, qemu, append([]string{path}, args...)...)
			}
			return tool(t, path, args...)
		}
		for _, program := range []string{"cdi-gen", "rdma-hook"} {
			test.StrHasPrefix(t, program+" "+version, run(program, "--version"),
				test.Sprintf("%s for %s: --version prints", program, arch))
		}
		specs[arch] = run("cdi-gen", "generate", "--no-hook", "--host-root", host)
	}
	if specs["arm64"] != specs["amd64"] || !strings.Contains(specs["arm64"], "name: mlx5_bond_0\n") {
		t.Errorf("the spec of arm64 is\n%s\nand that of amd64\n%s", specs["arm64"], specs["amd64"])
	}
}
