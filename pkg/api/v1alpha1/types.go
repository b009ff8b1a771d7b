package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
	// Allow bounds what claims of the class may ask for.
	Allow Allow `json:"allow,omitempty"`
	// Defaults hold where a claim says nothing.
	Defaults Settings `json:"defaults,omitempty"`
}

// Settings say how an HCA is given to a container. A field that is not set
// leaves the matter to the next one who has a say: claim, class, driver.
type Settings struct {
	// Memlock is the locked memory limit (RLIMIT_MEMLOCK) of the container's
	// processes: "unlimited", a quantity of bytes such as 4Gi, or "inherit" to
	// leave the container runtime's own limit as it is.
	Memlock *Memlock `json:"memlock,omitempty"`
	// Nodes are the groups of character devices the container gets: verbs, cm,
	// and where the class allows them mad and sm.
	Nodes []string `json:"nodes,omitempty"`
	// Env names libraries that the container is configured for by environment
	// variables: "nccl" sets NCCL_IB_HCA, "ucx" sets UCX_NET_DEVICES, to exactly
	// the claim's HCAs; "nccl-topology" sets NCCL_TOPO_FILE to a file that says where
	// they and the host's GPUs are. A value of the same name in the pod is replaced.
	Env []string `json:"env,omitempty"`
	// Limits bound what each container holds of an HCA. They may lower what a
	// claim's share of a shared HCA has, and not raise it.
	Limits Limits `json:"limits,omitzero"`
	// Network brings the HCA's network interface into the pod.
	Network Network `json:"network,omitzero"`
}

// Limits bound what the processes of one container hold of an HCA at a time, by
// the kernel's rdma cgroup controller. A limit that is not set leaves the matter to
// the next one who has a say.
type Limits struct {
	// Handles is the number of open contexts (hca_handle of rdma.max).
	Handles *resource.Quantity `json:"handles,omitempty"`
	// Objects is the number of verbs objects: queue pairs, completion queues, memory
	// regions and the like (hca_object of rdma.max).
	Objects *resource.Quantity `json:"objects,omitempty"`
}

// Allow bounds the settings of a claim.
type Allow struct {
	// Nodes are the groups a claim may ask for; verbs and cm if not set. Opening
	// mad or sm to a namespace's users gives them the fabric: see the admission
	// policy in the chart.
	Nodes []string `json:"nodes,omitempty"`
	// MemlockMax is the highest limit a claim may ask for; unlimited if not set.
	MemlockMax *Memlock `json:"memlockMax,omitempty"`
	// Env are the libraries a claim may ask for; all if not set.
	Env []string `json:"env,omitempty"`
	// LimitsMax are the highest limits a claim may ask for, and what it gets that
	// asks for none; unlimited if not set.
	LimitsMax Limits `json:"limitsMax,omitzero"`
	// Network bounds what a claim may ask for in network; nothing if not set.
	Network AllowNetwork `json:"network,omitzero"`
}

// Libraries that Settings.Env knows.
const (
	EnvNCCL         = "nccl"
	EnvNCCLTopology = "nccl-topology"
	EnvUCX          = "ucx"
)
