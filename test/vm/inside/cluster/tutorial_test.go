package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// TestTutorial runs the step of docs/quickstart-kubernetes.md that leads to traffic, as written. Two pods have one
// claim, and the log of one has the bandwidth. Only the patience is that for emulated time.
func TestTutorial(t *testing.T) {
	checkout, err := deploy.FindCheckout()
	must.NoError(t, err)
	page, err := os.ReadFile(checkout.Path("docs", "quickstart-kubernetes.md"))
	must.NoError(t, err)
	example := checkout.Example("first-traffic")
	_, after, _ := strings.Cut(string(page), "kubectl apply --filename examples/"+filepath.Base(example)+"\n")
	rest, _, found := strings.Cut(after, "```\n")
	must.True(t, found, must.Sprint("the tutorial does not apply its example"))
	commands := "kubectl apply --filename " + example + "\n" + strings.Replace(rest, "--timeout=3m", "--timeout=20m", 1)
	if _, err := kube.Output(t.Context(), "ctr", "images", "tag", "--force", vm.ToolsImage,
		"docker.io/library/rdma-tools:local"); err != nil {
		t.Fatal(err)
	}
	cmd := kube.Command(t.Context(), "sh", "-ec", commands)
	var out strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = string(checkout), &out, &out
	if err := kube.Run(cmd); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &out, kubectl(t, "describe", "pods"))
	}
	t.Log(out.String())
	inside.Wants(t, "the client", out.String(), "BW average[MB/sec]", " 65536      5000 ")
	inside.Wants(t, "the server", kubectl(t, "logs", "rdma-server"), "unlimited\n", " 65536      5000 ")
	kubectl(t, "delete", "--filename", example, "--wait", "--timeout=120s")
}
