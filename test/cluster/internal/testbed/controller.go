package testbed

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

// ControllerImage builds a controller of jobs (kueue, jobset, lws or mpi-operator), makes an image of it, and loads it
// as ref. It returns the directory of the controller's module, which has the manifests.
func (b *Bed) ControllerImage(t *testing.T, name, ref string) (module string) {
	t.Helper()
	dir, module, err := cluster.BuildController(t.Context(), b.options, name)
	must.NoError(t, err)
	tree, archive := t.TempDir(), filepath.Join(t.TempDir(), "image.tar")
	must.NoError(t, os.Symlink("usr/bin/"+name, filepath.Join(tree, "manager"))) // as in the images of their releases
	pack := exec.CommandContext(t.Context(), b.Checkout.Path("packaging", "image.sh"), ref, archive,
		filepath.Join(dir, name))
	pack.Env = append(os.Environ(), "TREE="+tree)
	out, err := pack.CombinedOutput()
	must.NoError(t, err, must.Sprintf("make the image of %s: %s", name, out))
	must.NoError(t, b.Load(t.Context(), archive))
	return module
}

// Controller installs a controller of jobs with the chart of its module. Image is the chart's value for the image.
// Further arguments go to helm.
func (b *Bed) Controller(t *testing.T, name, image string, further ...string) {
	t.Helper()
	module := b.ControllerImage(t, name, "localhost/"+name+":testbed")
	namespace := name + "-system"
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.Output("kubectl", "--namespace", namespace, "describe", "pods"))
			t.Log(b.Output("sh", "-c", "tail -n 40 /var/log/pods/"+namespace+"_*/*/*.log"))
		}
	})
	b.Inside(t, "helm", append([]string{
		"install", name, filepath.Join(module, "charts", name), "--namespace", namespace, "--create-namespace",
		"--set", image + ".repository=localhost/" + name, "--set", image + ".tag=testbed",
		"--set", image + ".pullPolicy=Never", "--wait", "--timeout", "120s",
	}, further...)...)
}
