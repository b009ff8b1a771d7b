package claims

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/leaf"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/podmeta"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// claimSpec is the CDI spec of a claim with the files that it mounts. The files describe the devices and their position
// to containers.
type claimSpec struct {
	*specs.Spec
	files    []podmeta.File
	errFiles error // the reason why there are no files
}

// makeSpec makes the spec of a plan, and confirms it with the kernel. It writes nothing.
func (c *Claims) makeSpec(host *node.Host, p *plan.Plan) (*claimSpec, error) {
	gpus := ""
	if slices.ContainsFunc(p.Devices, plan.Device.WantsVLLM) {
		gpus = topology.VLLM(host.Sys, host.Snapshot, presentHCAs(p, host.Snapshot))
	}
	spec, err := p.Spec(host.Snapshot, c.cfg.Hook, gpus)
	if err == nil {
		err = c.cfg.Node.Confirm(host, p)
	}
	if err != nil {
		return nil, node.Unsettled(err)
	}
	files, errFiles := filesOf(p, host.Snapshot, host.Sys, c.cfg.Node.Judged().Leaves)
	return &claimSpec{spec, files, errFiles}, nil
}

func filesOf(
	p *plan.Plan, snap *rdma.Snapshot, sys fs.ReadLinkFS, leaves *leaf.View,
) ([]podmeta.File, error) {
	files, err := podmeta.Files(p, snap, leaves)
	if err != nil || p.NCCLTopology == "" {
		return files, err
	}
	data, err := ncclTopology(p, snap, sys)
	return append(files, podmeta.File{Name: filepath.Base(p.NCCLTopology), Data: data}), err
}

// sizes returns the number of bytes that a claim takes of the node besides its record. It returns an error if a bound
// is exceeded.
func (s *claimSpec) sizes(p *plan.Plan) (int, error) {
	data, err := cdi.Encode(s.Spec, cdi.JSON)
	if err != nil {
		return 0, err
	}
	ofFiles := 0
	for _, f := range s.files {
		ofFiles += len(f.Data)
	}
	return len(data) + ofFiles, errors.Join(
		p.CheckSize("CDI spec", len(data), plan.MaxSpec), p.CheckSize("device metadata", ofFiles, plan.MaxFiles))
}

// specName is the base name of a claim's CDI spec.
func specName(uid types.UID) string { return cdi.SpecName(cdi.KindClaim, string(uid)) }

// writeSpec writes the spec of a claim and the files that it mounts, and reports whether the spec changed. The caller
// must hold the lock of the claim, and its record must exist.
//
// Afterwards writeSpec confirms the spec with the kernel, and removes a spec that does not fit: it may lead to another
// HCA. A later change of the host causes an event of the kernel, and its handler finds the record.
func (c *Claims) writeSpec(host *node.Host, p *plan.Plan, spec *claimSpec) (changed bool, err error) {
	errFiles := c.writeFiles(p, spec)
	changed, err = c.specs.Write(specName(p.UID), spec.Spec, cdi.JSON)
	if err != nil {
		err = because(metrics.ReasonCDI, fmt.Errorf(
			"claim %s: %w; the driver needs a writable CDI directory with free space on the node", p.Claim(), err))
	} else if moved := c.cfg.Node.Confirm(host, p); moved != nil {
		err = node.Unsettled(moved)
	}
	if err != nil {
		_, removeErr := c.specs.Remove(specName(p.UID))
		return changed, errors.Join(err, removeErr)
	}
	return changed, errFiles
}

// writeFiles writes the files that the spec of a claim mounts.
func (c *Claims) writeFiles(p *plan.Plan, spec *claimSpec) error {
	if err := spec.errFiles; err != nil {
		return because(metrics.ReasonRecord, err)
	}
	for _, f := range spec.files {
		if err := c.cfg.Store.Metadata().Write(p.UID, f.Name, f.Data); err != nil {
			return because(metrics.ReasonRecord, fmt.Errorf("claim %s: %w", p.Claim(), err))
		}
	}
	return nil
}

// presentHCAs returns the HCAs of a plan that are in the snapshot.
func presentHCAs(p *plan.Plan, snap *rdma.Snapshot) (hcas []*rdma.HCA) {
	for _, name := range p.HCAs() {
		if hca := snap.Lookup(name); hca != nil {
			hcas = append(hcas, hca)
		}
	}
	return hcas
}

// ncclTopology returns the content of a plan's topology file for NCCL. It omits absent HCAs.
func ncclTopology(p *plan.Plan, snap *rdma.Snapshot, sys fs.ReadLinkFS) ([]byte, error) {
	cpu, err := hostCPU.read()
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", p.Claim(), err)
	}
	data, err := topology.NCCL(sys, snap, presentHCAs(p, snap), cpu)
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", p.Claim(), err)
	}
	return data, nil
}

// maxCPUInfo bounds the size of /proc/cpuinfo: 2 KiB for each of a few thousand processors.
const maxCPUInfo = 16 << 20

// cpuModel is the model of the host's processors. It is read from a file once; after a failure, the next call tries
// again. It is safe for concurrent use.
type cpuModel struct {
	path  string
	known atomic.Pointer[topology.CPU]
}

// hostCPU is the model of this host: a container's /proc/cpuinfo is the host's.
var hostCPU = cpuModel{path: "/proc/cpuinfo"}

func (m *cpuModel) read() (topology.CPU, error) {
	if known := m.known.Load(); known != nil {
		return *known, nil
	}
	text, err := hostfs.ReadLocal(m.path, maxCPUInfo)
	if err != nil {
		return topology.CPU{}, fmt.Errorf("read the processor's model: %w", err)
	}
	cpu := topology.ParseCPU(string(text), runtime.GOARCH)
	m.known.Store(&cpu)
	return cpu, nil
}
