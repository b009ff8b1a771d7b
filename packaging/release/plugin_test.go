package release

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestPlugin: the archive of the plugin runs, completes and has its pages, and the
// manifest for krew is about the archive.
func TestPlugin(t *testing.T) {
	out := candidate(t)
	name := "kubectl-rdma_1.2.3-rc.1_linux_" + runtime.GOARCH + ".tar.gz"
	made := slices.DeleteFunc(names(t, out), func(file string) bool { return strings.HasPrefix(file, "cdi-gen") })
	must.Eq(t, []string{"SHA256SUMS", strings.TrimSuffix(name, ".tar.gz") + ".cdx.json", name, "rdma.yaml"}, made,
		must.Sprint("made"))
	dir := t.TempDir()
	tool(t, "tar", "-C", dir, "-xzf", filepath.Join(out, name))
	test.StrHasPrefix(t, "kubectl-rdma v1.2.3-rc.1 ", tool(t, filepath.Join(dir, "kubectl-rdma"), "version"),
		test.Sprint("version prints"))
	for _, name := range []string{"kubectl-rdma", "kubectl_complete-rdma"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != 0o755 || !info.ModTime().Equal(date) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	tool(t, "sh", "-n", filepath.Join(dir, "kubectl_complete-rdma"))
	help := tool(t, filepath.Join(dir, "kubectl-rdma"), "why", "--help")
	page := roff(t, filepath.Join(dir, "man/man1/kubectl-rdma-why.1.gz"))
	for _, want := range []string{"--search-time", "--kubeconfig", ".SH EXIT STATUS", "kubectl-rdma(1)"} {
		if !strings.Contains(page, want) || strings.HasPrefix(want, "--") && !strings.Contains(help, want) {
			t.Errorf("the manual page of why has no %s", want)
		}
	}
	krew(t, out, name, dir)
}

var (
	uri = regexp.MustCompile(`uri: (\S+)`)
	sum = regexp.MustCompile(`sha256: ([0-9a-f]{64})\n`)
	// what krew copies out of the archive
	from = regexp.MustCompile(`from: (\S+)`)
)

func krew(t *testing.T, work, name, unpacked string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(work, "rdma.yaml"))
	must.NoError(t, err)
	manifest := string(data)
	archive, err := os.ReadFile(filepath.Join(work, name))
	must.NoError(t, err)
	if m := sum.FindStringSubmatch(manifest); m == nil || m[1] != fmt.Sprintf("%x", sha256.Sum256(archive)) {
		t.Errorf("the checksum is not that of the archive:\n%s", manifest)
	}
	if m := uri.FindStringSubmatch(manifest); m == nil || m[1] != homepage+"/releases/download/v1.2.3-rc.1/"+name {
		t.Errorf("the manifest names another archive:\n%s", manifest)
	}
	for _, m := range from.FindAllStringSubmatch(manifest, -1) {
		_, err := os.Stat(filepath.Join(unpacked, m[1]))
		test.NoError(t, err, test.Sprint("krew would look for a file that is not there"))
	}
	for _, want := range []string{"name: rdma\n", "version: v1.2.3-rc.1\n", "os: linux\n", "arch: " + runtime.GOARCH + "\n"} {
		test.StrContains(t, manifest, want, test.Sprint("the manifest has no"))
	}
}
