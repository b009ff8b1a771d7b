package metrics

import (
	"github.com/rdma-dev/dra-driver-rdma/internal/counters"
	"github.com/rdma-dev/dra-driver-rdma/internal/rdmacgroup"
)

// State is what there is on a node at one moment.
type State struct {
	Devices     []Device
	Allocations []Allocation
	Containers  []Container
	// Published and Allocated are numbers of devices of the pool, by kind.
	Published, Allocated map[string]int
	PreparedClaims       int
	// Conditions is of how many HCAs each condition of health holds.
	Conditions map[string]int
	// Omitted is how many HCAs have no counters here, for the sake of the bounds.
	Omitted    int
	Registered bool
	PodsKnown  bool
	// NRIConnected is nil for a driver without an NRI plugin.
	NRIConnected *bool
	// Troubles are kinds of requests to the API server that fail at the moment, and
	// Failures is how often which failed since the driver started.
	Troubles []Failure
	Failures map[Failure]int
}

// Failure is a kind of request to the API server, and why it failed.
type Failure struct{ Request, Reason string }

// Owner is who has an HCA alone: a claim, and a pod that uses it. What is not known, or
// more than one, is empty.
type Owner struct{ Namespace, Claim, Pod string }

// Device is an HCA.
type Device struct {
	Name, IBDev                                                         string
	Driver, Function, Protocol, Model, BoardID, Firmware, PCI, NUMANode string
	Owner                                                               Owner
	// Healthy is nil for an HCA that is not judged.
	Healthy  *bool
	Taints   []Taint
	Ports    []Port
	Counters counters.Device
}

// Taint is what the health of an HCA asks for.
type Taint struct{ Key, Effect string }

// Port is a port of an HCA.
type Port struct {
	Number         int
	Active         bool
	BytesPerSecond float64 // 0: not known
	Counters       counters.Port
}

// Allocation is a claim that has an HCA, and one of the pods that use it.
type Allocation struct {
	Device    string // the HCA
	DRADevice string // the device of the pool
	Owner     Owner
}

// Container is what a container holds of an HCA.
type Container struct {
	rdmacgroup.Usage
	Device string
	Owner  Owner
}
