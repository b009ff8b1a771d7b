package plan

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

// NCCLTopologyPath is where containers have NCCL's topology file. No user has a say in it.
const NCCLTopologyPath = "/var/run/rdma.dev/nccl-topology.xml"

const ncclTopologyVariable = "NCCL_TOPO_FILE"

func (d Device) wantsTopology() bool {
	return slices.Contains(d.Settings.Env, v1alpha1.EnvNCCLTopology)
}

// ncclTopology returns the file of a plan on the host, "" if none of its devices is to have one. A
// file that the node's administrator gives to all containers is the better one.
func (p *Plan) ncclTopology(facts Facts) string {
	ofSite := func(env string) bool { return strings.HasPrefix(env, ncclTopologyVariable+"=") }
	if facts.FilesDir == "" || !slices.ContainsFunc(p.Devices, Device.wantsTopology) || slices.ContainsFunc(facts.Site.Env, ofSite) {
		return ""
	}
	return filepath.Join(facts.FilesDir, string(p.UID), "nccl-topology.xml")
}
