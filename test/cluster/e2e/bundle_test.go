package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestBundle: the archive of a real cluster has the driver's log and status page, and no name of the node, of a pod, of
// a claim or of a namespace, and no address of an HCA.
func TestBundle(t *testing.T) {
	n := bed.Namespace(t)
	n.Apply(testbed.Template("hadron", "hca.rdma.dev", "") + testbed.Pod("hadron-pod", "resourceClaimTemplateName: hadron"))
	n.Ready("hadron-pod")
	claim := n.ClaimOf("hadron-pod").Metadata.Name
	var archive, said strings.Builder
	cmd := bed.Command(t.Context(), bed.Plugin().Path, "bundle")
	cmd.Stdout, cmd.Stderr = &archive, &said
	must.NoError(t, bed.Run(cmd), must.Sprintf("kubectl rdma bundle: %s", &said))
	if strings.Contains(said.String(), "missing: ") {
		t.Errorf("an administrator may read all, but: %s", &said)
	}
	unpack := exec.Command("tar", "-xzO")
	unpack.Stdin = strings.NewReader(archive.String())
	text, err := unpack.CombinedOutput()
	must.NoError(t, err, must.Sprintf("unpack: %s", text))
	for _, want := range []string{"Publishing ResourceSlices", "pci-0000-", "mlx5_0", "hca.rdma.dev"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the archive lacks %q", want)
		}
	}
	for _, secret := range []string{"hadron-pod", claim, n.Name} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the archive has %q", secret)
		}
	}
}
