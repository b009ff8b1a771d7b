package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HCAConfig is what a claim wishes for the HCAs of its requests. It stands in
// spec.devices.config of a ResourceClaim or ResourceClaimTemplate.
type HCAConfig struct {
	metav1.TypeMeta `json:",inline"`
	Settings        `json:",inline"`
}

// HCAClassConfig is what an administrator allows, and the defaults, for every
// claim of a DeviceClass. It stands in spec.config of the DeviceClass, and is
// refused in a claim.
type HCAClassConfig struct {
	metav1.TypeMeta `json:",inline"`
	// Allow are the bounds of what claims of the class may ask for.
	Allow Allow `json:"allow,omitempty"`
	// Defaults are what holds where a claim says nothing, within the bounds.
	Defaults Settings `json:"defaults,omitempty"`
}

// Settings say how an HCA is given to a container. A field that is not set
// leaves the matter to the next one who has a say: claim, class, driver.
//
// The fields of these types are described in docs/reference/configuration.md by their
// comments (tools/reference), which has a last sentence of "Defaults to" for its own column.
type Settings struct {
	// Memlock is the soft locked memory limit (RLIMIT_MEMLOCK) to which the container's
	// processes are raised: unlimited, a quantity of bytes such as 4Gi, or inherit to
	// leave the container runtime's own limit as it is. It is no bound: a process may
	// raise its own limit to the hard one. Defaults to what the administrator
	// configured, which is unlimited unless they changed it.
	Memlock *Memlock `json:"memlock,omitempty"`
	// Nodes are the groups of character devices that the container gets: verbs (uverbsN),
	// cm (rdma_cm), and where the class allows them mad (umadN of every port) and sm
	// (issmN of every port). Defaults to verbs and cm.
	Nodes []string `json:"nodes,omitempty" jsonschema:"uniqueItems=true,enum=verbs,enum=cm,enum=mad,enum=sm"`
	// Env are libraries that the container is configured for by environment
	// variables: nccl sets NCCL_IB_HCA, ucx sets UCX_NET_DEVICES, to exactly
	// the claim's HCAs; nccl-topology sets NCCL_TOPO_FILE to a file that says where
	// they and the host's GPUs are. A value of the same name in the pod is replaced.
	Env []string `json:"env,omitempty" jsonschema:"uniqueItems=true,enum=nccl,enum=nccl-topology,enum=ucx"`
	// Limits are bounds of what each container holds of an HCA. They may lower what a
	// claim's share of a shared HCA has, and not raise it. Defaults to the claim's
	// share; without one there is no limit.
	Limits Limits `json:"limits,omitzero"`
	// Network is how the HCA's network interface comes into the pod.
	Network Network `json:"network,omitzero"`
}

// Limits bound what the processes of one container hold of an HCA at a time, by
// the kernel's rdma cgroup controller. A limit that is not set leaves the matter to
// the next one who has a say.
type Limits struct {
	// Handles is the number of open contexts (hca_handle of rdma.max), 1 to 2147483647.
	Handles *Quantity `json:"handles,omitempty"`
	// Objects is the number of verbs objects: queue pairs, completion queues, memory
	// regions and the like (hca_object of rdma.max), 1 to 2147483647.
	Objects *Quantity `json:"objects,omitempty"`
}

// Allow bounds the settings of a claim.
type Allow struct {
	// Nodes are the groups that a claim may ask for. Opening mad or sm to a namespace's
	// users gives them the fabric: see the admission policy in the chart. Defaults to
	// verbs and cm.
	Nodes []string `json:"nodes,omitempty" jsonschema:"uniqueItems=true,enum=verbs,enum=cm,enum=mad,enum=sm"`
	// MemlockMax is the highest limit that a claim may ask for: unlimited, or a quantity of
	// bytes. It bounds what the driver raises the soft limit to, and not what a container
	// can lock: a process may raise its own limit to the hard one. Defaults to unlimited.
	MemlockMax *Memlock `json:"memlockMax,omitempty"`
	// Env are the libraries that a claim may ask for. Defaults to all.
	Env []string `json:"env,omitempty" jsonschema:"uniqueItems=true,enum=nccl,enum=nccl-topology,enum=ucx"`
	// LimitsMax are the highest limits that a claim may ask for, and what it gets that
	// asks for none. Defaults to no bound where something else sets a limit; elsewhere
	// a claim may not ask for one.
	LimitsMax Limits `json:"limitsMax,omitzero"`
	// Network are the bounds of what a claim may ask for in network. Defaults to nothing.
	Network AllowNetwork `json:"network,omitzero"`
}

// Libraries that Settings.Env knows.
const (
	EnvNCCL         = "nccl"
	EnvNCCLTopology = "nccl-topology"
	EnvUCX          = "ucx"
)
