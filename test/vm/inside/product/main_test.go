// Package product holds tests that run inside the virtual machine: cdi-gen on a real
// RDMA kernel as a person uses it, from the package to traffic, and as a service that
// follows devices and finds faults.
package product

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/vm"
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
	// There is no systemd and no journal here.
	err := os.MkdirAll("/etc/containers", 0o755)
	if err == nil {
		err = os.WriteFile("/etc/containers/containers.conf", []byte("[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n"), 0o644)
	}
	if err != nil {
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

// result is what a command said and how it ended.
type result struct {
	out  string
	code int
}

// run runs a command and returns both its outputs.
func run(argv ...string) result {
	cmd := exec.Command(argv[0], argv[1:]...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		return result{err.Error(), 127}
	}
	return result{string(out), cmd.ProcessState.ExitCode()}
}

// must runs a command that has to succeed, and returns what it said.
func must(t *testing.T, argv ...string) string {
	t.Helper()
	r := run(argv...)
	if r.code != 0 {
		t.Fatalf("%s: status %d\n%s", strings.Join(argv, " "), r.code, r.out)
	}
	return r.out
}

// eventually waits for a condition, and returns how long that took.
func eventually(t *testing.T, what string, limit time.Duration, try func() error) time.Duration {
	t.Helper()
	start := time.Now()
	for {
		err := try()
		if err == nil {
			return time.Since(start)
		}
		if time.Since(start) > limit {
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// wants asserts that a text has all the words.
func wants(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s does not say %q:\n%s", what, word, text)
		}
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
		must(t, "dpkg", "--install", files[0])
	}
	loadImage(t)
}

// loadImage gives podman the image that a user would have pulled or built.
func loadImage(t *testing.T) {
	t.Helper()
	if run("podman", "image", "exists", toolsImage).code != 0 {
		must(t, "podman", "load", "--quiet", "--input", os.Getenv("TOOLS_ARCHIVE"))
		must(t, "podman", "tag", vm.ToolsImage, toolsImage)
	}
}

// contain runs a shell script in a container, as an ordinary user without capabilities
// if the options do not say otherwise, and returns what it said.
func contain(image, script string, options ...string) result {
	argv := []string{"podman", "run", "--rm", "--network", "none", "--user", "1000", "--cap-drop", "all"}
	return run(append(append(argv, options...), image, "sh", "-c", script)...)
}

// node is the node of an ibdev in a class, by the kernel's own word: umad0.
func node(t *testing.T, class, ibdev string) string {
	t.Helper()
	files, err := filepath.Glob("/sys/class/" + class + "/*/ibdev")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(file))
		if strings.TrimSpace(string(data)) == ibdev && !strings.HasPrefix(name, "issm") {
			return name
		}
	}
	t.Fatalf("the kernel has no node of class %s for %s", class, ibdev)
	return ""
}
