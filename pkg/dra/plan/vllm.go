package plan

import (
	"slices"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

func (d Device) wantsVLLM() bool { return slices.Contains(d.Settings.Env, v1alpha1.EnvVLLM) }

// SetVLLM writes vLLM's map of GPUs to HCAs into the spec of a plan, for the devices that need it. vLLM refuses one of
// the two variables without the other, so an empty map sets none. NIXL's UCX is the only library that vLLM selects by
// them: NCCL selects by itself.
func SetVLLM(spec *specs.Spec, p *Plan, makeMap func() string) {
	if !slices.ContainsFunc(p.Devices, Device.wantsVLLM) {
		return
	}
	mapping := makeMap()
	for _, d := range p.Devices {
		i := slices.IndexFunc(spec.Devices, func(s specs.Device) bool { return s.Name == p.CDIName(d) })
		if i < 0 || mapping == "" || !d.wantsVLLM() {
			continue
		}
		edits := &spec.Devices[i].ContainerEdits
		edits.Env = append(edits.Env, "VLLM_GPU_NIC_PCIE_MAPPING="+mapping, "VLLM_NIC_SELECTION_VARS=UCX_NET_DEVICES:1")
	}
}
