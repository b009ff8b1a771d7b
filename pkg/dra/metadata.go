package dra

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/podmeta"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// makeSpec makes the spec of a claim from what the kernel has now, and the files that it mounts: what its containers
// can read about its devices, and about their place.
func (d *Driver) makeSpec(p *plan.Plan) (*claimSpec, error) {
	spec, err := d.host.spec(p, d.cfg.Hook)
	if err != nil {
		return nil, err
	}
	spec.files, spec.errFiles = d.host.files(p, spec.snap)
	return spec, nil
}

func (h *host) files(p *plan.Plan, snap *rdma.Snapshot) ([]podmeta.File, error) {
	files, err := podmeta.Files(p, snap)
	if err != nil || p.NCCLTopology == "" {
		return files, err
	}
	data, err := h.ncclTopology(p, snap)
	return append(files, podmeta.File{Name: filepath.Base(p.NCCLTopology), Data: data}), err
}

// sizes returns how many bytes a claim takes of the node besides its record, or that it is more than it may.
func (c *claimSpec) sizes(p *plan.Plan) (int, error) {
	data, err := cdi.Encode(c.Spec, cdi.JSON)
	if err != nil {
		return 0, err
	}
	ofFiles := 0
	for _, f := range c.files {
		ofFiles += len(f.Data)
	}
	return len(data) + ofFiles, errors.Join(
		p.CheckSize("CDI spec", len(data), plan.MaxSpec), p.CheckSize("device metadata", ofFiles, plan.MaxFiles))
}

// writeFiles writes the files that the spec of a claim mounts.
func (d *Driver) writeFiles(p *plan.Plan, spec *claimSpec) error {
	if spec.errFiles != nil {
		return spec.errFiles
	}
	for _, f := range spec.files {
		if err := d.claims.WriteMetadata(p.UID, f.Name, f.Data); err != nil {
			return fmt.Errorf("claim %s: %w", p.Claim(), err)
		}
	}
	return nil
}

// ncclTopology makes NCCL's topology file of a plan. HCAs that are not there are not in it.
func (h *host) ncclTopology(p *plan.Plan, snap *rdma.Snapshot) ([]byte, error) {
	cpu, err := readCPU()
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", p.Claim(), err)
	}
	var hcas []*rdma.HCA
	for _, name := range p.HCAs() {
		if hca := snap.Lookup(name); hca != nil {
			hcas = append(hcas, hca)
		}
	}
	data, err := topology.NCCL(h.sys, snap, hcas, cpu)
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", p.Claim(), err)
	}
	return data, nil
}

// readCPU reads what the host's processors are, once. A container's /proc/cpuinfo is the host's.
var readCPU = sync.OnceValues(func() (topology.CPU, error) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return topology.CPU{}, fmt.Errorf("read the processor's model: %w", err)
	}
	return topology.ParseCPU(string(text), runtime.GOARCH), nil
})
