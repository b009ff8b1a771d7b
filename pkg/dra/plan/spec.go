package plan

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostconfig"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// HookOptions configure the hook. The hook sets the limits of a container, of locked memory and on HCAs. It also keeps
// a container from starting with a device that does not belong to it.
type HookOptions struct {
	// Path is the path of the hook program on the host, "" for no hook. Without a hook, limits only count for the
	// scheduler.
	Path string
	// OnDenied is what the hook does if it may not raise the hard limit: clamp, fail or ignore.
	OnDenied string
	// ReportDir is the directory for the reports of the hook, "" for none.
	ReportDir string
	// Presence makes the hook refuse the start of a container whose network namespace lacks the HCA. It has an effect
	// only on a host in exclusive mode. The hook always checks for the network interface of a device.
	Presence bool
}

// NotFoundError means that a device of a plan is not on the host now. The kernel may be in the middle of a change, so
// the caller should read the host again.
type NotFoundError struct {
	Claim, Device string
	Err           error
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("claim %s: device %s: %v", e.Claim, e.Device, e.Err)
}

func (e *NotFoundError) Unwrap() error { return e.Err }

var errAbsent = errors.New("the host has no such RDMA device now: it was removed, or its driver is not loaded")

// Spec makes the CDI spec of a plan: one CDI device for each allocated device, with the nodes of its HCAs in the
// snapshot. If a node or a member of a group is missing, it returns an error and no spec. A program that does not find
// its HCA would use TCP without a message. gpus is vLLM's map of GPUs to the HCAs, if a device [Device.WantsVLLM].
func (p *Plan) Spec(snap *rdma.Snapshot, hook HookOptions, gpus string) (*specs.Spec, error) {
	hcas := make([][]*rdma.HCA, len(p.Devices))
	for i, d := range p.Devices {
		for _, name := range d.HCAs() {
			h := snap.Lookup(name)
			if h == nil {
				return nil, &NotFoundError{p.Claim(), name, errAbsent}
			}
			hcas[i] = append(hcas[i], h)
		}
	}
	devices := make([]cdi.Device, len(p.Devices))
	for i, d := range p.Devices {
		var err error
		if devices[i], err = p.device(d, hcas[i], snap, hook); err != nil {
			return nil, err
		}
		devices[i].Env = append(devices[i].Env, libraryEnv(d.Settings, slices.Concat(hcas...), gpus)...)
		if p.NCCLTopology != "" && d.wantsTopology() {
			devices[i].Env = append(devices[i].Env, hostconfig.NCCLTopologyVariable+"="+NCCLTopologyPath)
			devices[i].Mounts = append(devices[i].Mounts, cdi.Mount{HostPath: p.NCCLTopology, ContainerPath: NCCLTopologyPath})
		}
	}
	for _, m := range p.Metadata.Mounts(p) {
		devices[m.device].Mounts = append(devices[m.device].Mounts, m.Mount)
	}
	return cdi.NewSpec(cdi.KindClaim, devices)
}

// device makes the CDI device of one device of a plan.
func (p *Plan) device(d Device, hcas []*rdma.HCA, snap *rdma.Snapshot, hook HookOptions) (cdi.Device, error) {
	out := cdi.Device{Name: p.CDIName(d)}
	var own args.Options // what the hook does for this device
	hook.Presence = hook.Presence && snap.NetnsMode == rdma.NetnsExclusive
	if p.Site != nil {
		out.Env, out.Mounts = slices.Clone(p.Site.Env), slices.Clone(p.Site.Mounts)
	}
	for _, h := range hcas {
		nodes, err := cdi.SelectNodes(h, snap.RDMACM, d.Settings.Nodes)
		if err != nil {
			return out, &NotFoundError{p.Claim(), h.Name, err}
		}
		out.Nodes = append(out.Nodes, nodes...)
		own.Nodes = append(own.Nodes, cdi.NodeOwners(h, nodes)...)
		out.Env = append(out.Env, deviceEnv(h))
		if d.Limits != (Limits{}) {
			want := args.Wanted{Handles: args.Count(d.Limits.Handles), Objects: args.Count(d.Limits.Objects)}
			own.Limits = append(own.Limits, args.Limit{IBDev: h.IBDev, Want: want})
		}
		if hook.Presence && h.Uverbs != nil {
			own.Presences = append(own.Presences, args.Presence{IBDev: h.IBDev, Uverbs: h.Uverbs.Name})
		}
	}
	if n := d.Network; n != nil {
		if hook.Path == "" {
			return out, fmt.Errorf("claim %s: device %s: network: the driver has no hook that keeps a container from starting without its interface: set --hook-dir", p.Claim(), d.Device)
		}
		out.Env = append(out.Env, InterfaceVariable(hcas[0].Name)+"="+n.Interface)
		own.Interfaces = []args.Interface{{Name: n.Interface, Alias: p.InterfaceAlias(d)}}
	}
	out.Hook = hook.hookFor(p, d, own)
	for _, h := range hcas {
		if out.Hook != nil {
			out.Hook.CheckUse(h)
		}
	}
	return out, nil
}

// deviceEnv returns the variable with the kernel's name of an HCA: RDMA_DEVICE_PCI_0000_3B_00_0=mlx5_0. The variable is
// named after the HCA, in shared use too, so that the HCAs of a container do not overwrite each other's variables.
func deviceEnv(h *rdma.HCA) string {
	return DeviceVariable(h.Name) + "=" + h.IBDev
}

// DeviceVariable returns the name of the variable with the kernel's name of an HCA.
func DeviceVariable(hca string) string { return cdi.DeviceVariable(hca) }

// InterfaceVariable returns the name of the variable with the interface of an HCA in the pod:
// RDMA_INTERFACE_PCI_0000_3B_00_0=rdma0.
func InterfaceVariable(hca string) string { return variable("RDMA_INTERFACE_", hca) }

// GIDIndexVariable returns the name of the variable with the index of the GID of this interface's IPv4 address:
// RDMA_GID_INDEX_PCI_0000_3B_00_0=3.
func GIDIndexVariable(hca string) string { return variable("RDMA_GID_INDEX_", hca) }

// gidIndexVariables has, by the words of env, the variables with the GID index of all HCAs of a container.
var gidIndexVariables = map[string]string{
	v1alpha1.EnvLibfabricGIDIndex: "FI_VERBS_GID_IDX",
	v1alpha1.EnvNCCLGIDIndex:      "NCCL_IB_GID_INDEX",
	v1alpha1.EnvNVSHMEMGIDIndex:   "NVSHMEM_IB_GID_INDEX",
	v1alpha1.EnvUCXGIDIndex:       "UCX_IB_GID_INDEX",
}

// GIDIndexVariables returns the variables with a GID index that the words of env ask for, in order. They are in no
// CDI spec: the index is known when a container is created.
func (s Settings) GIDIndexVariables() (names []string) {
	for _, word := range s.Env {
		if name := gidIndexVariables[word]; name != "" {
			names = append(names, name)
		}
	}
	return names
}

func variable(prefix, hca string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(hca, "-", "_"))
}

// libraryEnv returns the variables that configure libraries for all HCAs of a claim. Every device has the same value,
// because a container with several devices keeps only the last one. checkMarks has compared the marks.
func libraryEnv(set Settings, hcas []*rdma.HCA, gpus string) []string {
	var ibdevs, ports []string
	for _, h := range hcas {
		if slices.Contains(ibdevs, h.IBDev) {
			continue
		}
		ibdevs = append(ibdevs, h.IBDev)
		for port := range h.OwnPorts() {
			ports = append(ports, h.IBDev+":"+strconv.Itoa(port.Number))
		}
	}
	var env []string
	for _, library := range set.Env {
		switch library {
		case v1alpha1.EnvLibfabric:
			// Libfabric takes the names as prefixes: mlx5_1 also selects mlx5_10, which the container cannot open.
			env = append(env, "FI_VERBS_DEVICE_NAME="+strings.Join(ibdevs, ","))
		case v1alpha1.EnvNCCL:
			// The second "=" asks NCCL for exact names: mlx5_1 would match mlx5_10.
			env = append(env, "NCCL_IB_HCA=="+strings.Join(ibdevs, ","))
		case v1alpha1.EnvNVSHMEM:
			// Without the mapping NVSHMEM takes the HCA that is closest to the GPU, and ignores the list.
			env = append(env, "NVSHMEM_HCA_LIST="+strings.Join(ports, ","), "NVSHMEM_ENABLE_NIC_PE_MAPPING=1")
		case v1alpha1.EnvUCX:
			env = append(env, "UCX_NET_DEVICES="+strings.Join(ports, ","))
		case v1alpha1.EnvVLLM:
			// vLLM refuses one of the two without the other. NIXL's UCX is the only library that it selects by them.
			if gpus != "" {
				env = append(env, "VLLM_GPU_NIC_PCIE_MAPPING="+gpus, "VLLM_NIC_SELECTION_VARS=UCX_NET_DEVICES:1")
			}
		}
		for _, mark := range markEnv(library, set.Marks) {
			if !slices.Contains(env, mark) { // UCX's are also those of vLLM
				env = append(env, mark)
			}
		}
	}
	return env
}

// hookFor returns the hook of a device of a plan with its own options, nil without a hook program. The hook is never
// superfluous: it checks at least that the nodes belong to the HCA.
func (o HookOptions) hookFor(p *Plan, d Device, own args.Options) *cdi.Hook {
	if o.Path == "" {
		return nil
	}
	own.Memlock = memlockSize(d.Settings.Memlock)
	own.OnDenied, own.OnUnusable = args.OnDenied(o.OnDenied), args.OnUnusable(d.Settings.OnUnusable)
	if o.ReportDir != "" {
		own.Report, own.Claim = o.ReportDir, string(p.UID)
	}
	return &cdi.Hook{Path: o.Path, Options: own}
}

func memlockSize(m v1alpha1.Memlock) args.Size {
	if m == v1alpha1.MemlockUnlimited {
		return args.Unlimited
	}
	n, _ := m.Bytes() // it was checked; inherit is 0, for which the hook raises nothing
	return args.Size(n)
}

// NCCLTopologyPath is the path of NCCL's topology file in containers. Users cannot change it.
const NCCLTopologyPath = "/var/run/rdma.dev/nccl-topology.xml"

func (d Device) wantsTopology() bool {
	return slices.Contains(d.Settings.Env, v1alpha1.EnvNCCLTopology)
}

// WantsVLLM reports whether a device needs vLLM's map of GPUs to HCAs.
func (d Device) WantsVLLM() bool { return slices.Contains(d.Settings.Env, v1alpha1.EnvVLLM) }

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
