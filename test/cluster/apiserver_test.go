package cluster_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

// TestControlPlane: two API servers run beside each other, and whatever else runs.
func TestControlPlane(t *testing.T) {
	needs.Long(t, "the test bed alone; packages policies and plugin start such API servers, several at a time")
	path, err := cluster.Build(t.Context(), cluster.Options{Progress: t.Output()})
	must.NoError(t, err)
	kubectl := ""
	for _, dir := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(dir, "kubectl")); err == nil {
			kubectl = found
		}
	}
	for _, name := range []string{"first", "second"} {
		cp, err := cluster.StartControlPlane(t.Context(), t.TempDir(), cluster.Options{Progress: t.Output()})
		must.NoError(t, err)
		t.Cleanup(func() {
			test.NoError(t, cp.Stop())
		})
		for _, args := range []string{"create namespace " + name, "get namespaces -o name"} {
			out, err := exec.CommandContext(t.Context(), kubectl, append([]string{"--kubeconfig", cp.Kubeconfig()}, strings.Fields(args)...)...).CombinedOutput()
			must.NoError(t, err, must.Sprintf("kubectl %s: %v\n%s", args, err, out))
			if name == "second" && strings.Contains(string(out), "first") {
				t.Errorf("the second API server has what the first was given:\n%s", out)
			}
		}
	}
}
