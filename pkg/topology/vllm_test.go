package topology_test

import (
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// TestVLLM pins the HCA of each GPU on each modelled board, for a claim of all usable HCAs. The matrices in the other
// files have the distances. A GPU with several HCAs beside it, or with none nearer than others, has none.
func TestVLLM(t *testing.T) {
	var out strings.Builder
	for _, name := range machines {
		host := discover(t, name)
		names := map[string]string{}
		for _, d := range host.Devices {
			names[d.Address] = d.Name
		}
		m, err := fixture.Load(name)
		must.NoError(t, err)
		sys := m.FS(t)
		snap, err := rdma.Discover(sys)
		must.NoError(t, err)
		of := map[string]string{}
		for pair := range strings.SplitSeq(topology.VLLM(sys, snap, snap.Usable()), ",") {
			gpu, hca, _ := strings.Cut(pair, "=")
			of[gpu] = names[hca]
		}
		out.WriteString(name + "\n")
		for _, d := range host.Accelerators() {
			if d.Kind == topology.GPU {
				out.WriteString("  " + strings.TrimSpace(d.Name+" "+of[d.Address]) + "\n")
			}
		}
	}
	golden.Bytes(t, "vllm.txt", []byte(out.String()))
}
