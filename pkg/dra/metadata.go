package dra

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/podmeta"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// writeMetadata writes what the containers of a claim can read about its devices, and
// about their place.
func (d *Driver) writeMetadata(p *plan.Plan, snap *rdma.Snapshot) error {
	files, err := podmeta.Files(p, snap)
	if err == nil && p.NCCLTopology != "" {
		var data []byte
		data, err = d.host.ncclTopology(p, snap)
		files = append(files, podmeta.File{Name: filepath.Base(p.NCCLTopology), Data: data})
	}
	if err != nil {
		return err
	}
	for _, f := range files {
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
