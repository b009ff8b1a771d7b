package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HCAConfig is a claim's settings for the HCAs of its requests. It stands in
// spec.devices.config of a ResourceClaim or ResourceClaimTemplate.
type HCAConfig struct {
	metav1.TypeMeta `json:",inline"`
	Settings        `json:",inline"`
}

// HCAClassConfig is an administrator's bounds and defaults for every claim of a
// DeviceClass. It stands in spec.config of the DeviceClass. The driver rejects it
// in a claim.
type HCAClassConfig struct {
	metav1.TypeMeta `json:",inline"`
	// Allow are the bounds of the settings that claims of the class may request.
	Allow Allow `json:"allow,omitempty"`
	// Defaults are the settings for claims that do not set them, within the bounds.
	Defaults Settings `json:"defaults,omitempty"`
}

// Settings configure how a container gets an HCA. An unset field takes the value of the
// next level: claim, then class, then driver.
//
// docs/reference/configuration.md describes the fields of these types by their comments
// (tools/reference). A last sentence of "Defaults to" has a column of its own.
type Settings struct {
	// Memlock is the soft locked memory limit (RLIMIT_MEMLOCK) of the container's processes:
	// unlimited, a size such as 4Gi or 4g (4G is 4000000000 bytes, as in Kubernetes), or inherit to
	// keep the container runtime's limit. The driver raises the limit and never lowers it. A process may raise its own
	// limit to the hard one. Defaults to the administrator's setting, which is unlimited
	// unless they changed it.
	Memlock *Memlock `json:"memlock,omitempty"`
	// Nodes are the groups of character devices that the container gets: verbs (uverbsN),
	// cm (rdma_cm), and where the class allows them psm (hfi1_N of an Omni-Path HCA, for PSM2 and OPX), mad (umadN of
	// every port) and sm (issmN of every port). Defaults to verbs and cm.
	Nodes []string `json:"nodes,omitempty" jsonschema:"uniqueItems=true,enum=verbs,enum=cm,enum=psm,enum=mad,enum=sm"`
	// Env are libraries that the driver configures by environment variables: libfabric sets
	// FI_VERBS_DEVICE_NAME, nccl sets NCCL_IB_HCA, nvshmem sets NVSHMEM_HCA_LIST and ucx sets UCX_NET_DEVICES
	// to the claim's HCAs.
	// nccl-topology sets NCCL_TOPO_FILE to a file with the positions of these HCAs and the host's GPUs. vllm sets
	// VLLM_GPU_NIC_PCIE_MAPPING to the nearest of these HCAs for each GPU of the host, and VLLM_NIC_SELECTION_VARS. They
	// replace variables of the same name in the pod. The words with gid-index set the variable with the GID index of
	// a library, where all HCAs of a container have the same index and the pod does not set the variable.
	Env   Libraries `json:"env,omitempty"`
	Marks `json:",inline"`
	// OnUnusable is what the driver does if a container cannot use an HCA of the claim: warn tells the pod by an event,
	// fail also keeps the container from starting if that is certain, ignore does not check. Of the words of the class
	// and of the claim, the strictest counts. Defaults to warn.
	OnUnusable string `json:"onUnusable,omitempty" jsonschema:"enum=warn,enum=fail,enum=ignore"`
	// Limits are the bounds of what each container holds of an HCA. They may lower the limits of a claim's
	// share of a shared HCA, but not raise them. Defaults to the claim's share; without a share
	// there is no limit.
	Limits Limits `json:"limits,omitzero"`
	// Network is the way of the HCA's network interface into the pod.
	Network Network `json:"network,omitzero"`
}

// Limits bound what the processes of one container hold of an HCA at a time, by
// the kernel's rdma cgroup controller. An unset limit takes the value of the next level.
type Limits struct {
	// Handles is the number of open contexts (hca_handle of rdma.max), 1 to 2147483647.
	Handles *Quantity `json:"handles,omitempty"`
	// Objects is the number of verbs objects: queue pairs, completion queues, memory
	// regions and the like (hca_object of rdma.max), 1 to 2147483647.
	Objects *Quantity `json:"objects,omitempty"`
}

// Allow bounds the settings of a claim.
type Allow struct {
	// Nodes are the groups that a claim may request. limits do not bound psm. mad and sm give the users of a namespace
	// control of the fabric: see the admission policy in the chart. Defaults to verbs and
	// cm.
	Nodes []string `json:"nodes,omitempty" jsonschema:"uniqueItems=true,enum=verbs,enum=cm,enum=psm,enum=mad,enum=sm"`
	// MemlockMax is the highest limit that a claim may request: unlimited, or a size. It
	// bounds the soft limit that the driver sets. A container can still lock more, because
	// a process may raise its own limit to the hard one, unless the driver has NRI. Defaults to unlimited.
	MemlockMax *Memlock `json:"memlockMax,omitempty"`
	// Env are the libraries that a claim may request. Defaults to all.
	Env        Libraries `json:"env,omitempty"`
	AllowMarks `json:",inline"`
	// LimitsMax are the highest limits that a claim may request. A claim without limits gets them.
	// Defaults to no further bound on HCAs with a share or a default limit; on others, a claim may not request
	// limits.
	LimitsMax Limits `json:"limitsMax,omitzero"`
	// Network are the bounds of what a claim may request in network. Defaults to nothing.
	Network AllowNetwork `json:"network,omitzero"`
}

// Libraries are words of EnvWords, each at most once.
type Libraries []string

// EnvWords are the words of Settings.Env.
var EnvWords = []string{
	EnvLibfabric, EnvLibfabricGIDIndex, EnvNCCL, EnvNCCLGIDIndex, EnvNCCLTopology,
	EnvNVSHMEM, EnvNVSHMEMGIDIndex, EnvUCX, EnvUCXGIDIndex, EnvVLLM,
}

// OnUnusableWords are the words of Settings.OnUnusable, the strictest last.
var OnUnusableWords = []string{"ignore", "warn", "fail"}

// The words of Settings.Env.
const (
	EnvLibfabric         = "libfabric"
	EnvLibfabricGIDIndex = "libfabric-gid-index"
	EnvNCCL              = "nccl"
	EnvNCCLGIDIndex      = "nccl-gid-index"
	EnvNCCLTopology      = "nccl-topology"
	EnvNVSHMEM           = "nvshmem"
	EnvNVSHMEMGIDIndex   = "nvshmem-gid-index"
	EnvUCX               = "ucx"
	EnvUCXGIDIndex       = "ucx-gid-index"
	EnvVLLM              = "vllm"
)
