package metrics

import (
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/counters"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmacgroup"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
)

// State is the state of a node at one time.
type State struct {
	Devices     []Device
	Allocations []Allocation
	Containers  []Container
	// Published and Allocated count devices of the pool, by kind.
	Published, Allocated map[string]int
	PreparedClaims       int
	// Conditions counts the HCAs with each condition of health.
	Conditions map[string]int
	// Omitted counts the HCAs whose counters were not read, to keep within the bounds.
	Omitted int
	// Blocks are the node's blocks of addresses.
	Blocks     []blocks.Usage
	Registered bool
	PodsKnown  bool
	// Refused means that the configuration file is not used as it is now.
	Refused bool
	// NRIConnected is nil for a driver without an NRI plugin.
	NRIConnected *bool
	// Troubles are the kinds of requests to the API server that fail now. Failures counts the failed
	// requests since the driver started.
	Troubles []Failure
	Failures map[Failure]int
}

// Failure is a kind of request to the API server with the reason of its failure.
type Failure struct{ Request, Reason string }

// Owner is the only claim that holds an HCA, and the only pod that uses it. A field is empty if
// that is unknown, or there are several.
type Owner struct{ Namespace, Claim, Pod string }

// Device is an HCA.
type Device struct {
	Name, IBDev                                                         string
	Driver, Function, Protocol, Model, BoardID, Firmware, PCI, NUMANode string
	Owner                                                               Owner
	// Healthy is nil for an HCA whose health is not monitored.
	Healthy    *bool
	Unused     bool
	Conditions []string // those that hold
	Falls      int      // incidents within a day
	Taints     []Taint
	Ports      []Port
	Counters   counters.Device
}

// Taint is a taint that the health of an HCA requires.
type Taint struct{ Key, Effect string }

// Port is a port of an HCA.
type Port struct {
	Number         int
	Active         bool
	BytesPerSecond float64 // 0: unknown
	Counters       counters.Port
}

// Allocation is a claim that holds an HCA, and one of the pods that use it.
type Allocation struct {
	Device    string // the HCA
	DRADevice string // the device of the pool
	Owner     Owner
}

// Container is a container's use of an HCA.
type Container struct {
	rdmacgroup.Usage
	Device string
	Owner  Owner
}
