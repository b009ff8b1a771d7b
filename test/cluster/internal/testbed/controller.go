package testbed

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

// Controller installs a controller of jobs (kueue, jobset or lws) with the chart of its module, whose image is made of
// the program. Image is the chart's value for it. Further arguments go to helm.
func (b *Bed) Controller(t *testing.T, name, image string, further ...string) {
	t.Helper()
	dir, module, err := cluster.BuildController(t.Context(), b.options, name)
	must.NoError(t, err)
	tree, archive := t.TempDir(), filepath.Join(t.TempDir(), "image.tar")
	must.NoError(t, os.Symlink("usr/bin/"+name, filepath.Join(tree, "manager"))) // as in the image of its release
	pack := exec.CommandContext(t.Context(), b.Checkout.Path("packaging", "image.sh"), "localhost/"+name+":testbed",
		archive, filepath.Join(dir, name))
	pack.Env = append(os.Environ(), "TREE="+tree)
	out, err := pack.CombinedOutput()
	must.NoError(t, err, must.Sprintf("make the image of %s: %s", name, out))
	must.NoError(t, b.Load(t.Context(), archive))
	namespace := name + "-system"
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.Output("kubectl", "--namespace", namespace, "describe", "pods"))
			t.Log(b.Output("sh", "-c", "tail -n 40 /var/log/pods/"+namespace+"_*/*/*.log"))
		}
	})
	b.Inside(t, "helm", append([]string{
		"install", name, filepath.Join(module, "charts", name), "--namespace", namespace, "--create-namespace",
		"--set", image + ".repository=localhost/" + name, "--set", image + ".tag=testbed", "--set", image + ".pullPolicy=Never",
		"--wait", "--timeout", "120s",
	}, further...)...)
}
