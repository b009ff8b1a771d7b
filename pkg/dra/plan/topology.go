package plan

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostconfig"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

// NCCLTopologyPath is the path of NCCL's topology file in containers. Users cannot change it.
const NCCLTopologyPath = "/var/run/rdma.dev/nccl-topology.xml"

func (d Device) wantsTopology() bool {
	return slices.Contains(d.Settings.Env, v1alpha1.EnvNCCLTopology)
}

// ncclTopology returns the path of a plan's topology file on the host, "" if no device needs one. If the administrator
// gives a topology file to all containers, that file takes precedence and there is no other.
func (p *Plan) ncclTopology(facts Facts) string {
	ofSite := func(env string) bool { return strings.HasPrefix(env, hostconfig.NCCLTopologyVariable+"=") }
	wanted := slices.ContainsFunc(p.Devices, Device.wantsTopology)
	if facts.FilesDir == "" || !wanted || slices.ContainsFunc(facts.Site.Env, ofSite) {
		return ""
	}
	return filepath.Join(facts.FilesDir, string(p.UID), "nccl-topology.xml")
}
