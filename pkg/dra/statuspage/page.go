package statuspage

import (
	"time"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/explain"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// Page is the state of a driver and its node at one time.
type Page struct {
	Node    string    `json:"node"`
	Version string    `json:"version"` // of the driver
	Started time.Time `json:"started"`
	At      time.Time `json:"at"`
	// Registered is whether the kubelet has registered the driver.
	Registered bool `json:"registered"`
	// NRI is the connection of the driver's NRI plugin to the container runtime: connected or
	// not connected, and empty for a driver without one.
	NRI string `json:"nri,omitempty"`
	// Problems are the problems of the node, the API server or the driver, as text. HCAs have
	// their own.
	Problems []string `json:"problems"`
	// Topology has the positions of HCAs and accelerators.
	Topology *topology.Topology `json:"topology"`
	HCAs     []HCA              `json:"hcas"`
	Groups   []explain.Group    `json:"groups"`
	Claims   []Claim            `json:"claims"`
	// Blocks are the node's blocks of addresses.
	Blocks []blocks.Usage `json:"blocks,omitempty"`
	// Events are in order, the newest first.
	Events []Event `json:"events"`
}

// HCA is one HCA of the host, or an absent one that a claim holds.
type HCA struct {
	Name     string `json:"name"`
	IBDev    string `json:"ibdev"`
	Function string `json:"function"`
	Protocol string `json:"protocol,omitempty"`
	Model    string `json:"model,omitempty"`
	Firmware string `json:"firmware,omitempty"`
	PCI      string `json:"pci,omitempty"`
	NUMANode *int   `json:"numaNode,omitempty"`
	Ports    []Port `json:"ports"`
	// Health is the status for the kubelet: Healthy, Unhealthy or Unknown; empty for an
	// unusable HCA. Fault is the fault.
	Health string `json:"health,omitempty"`
	Fault  string `json:"fault,omitempty"`
	// Conditions are the conditions that hold, in order of importance.
	Conditions []Condition `json:"conditions,omitempty"`
	// History is what happened to it lately, in one line. Recent are its last changes, the oldest first.
	History string   `json:"history,omitempty"`
	Recent  []Change `json:"recent,omitempty"`
	// Taints are key:effect.
	Taints []string `json:"taints,omitempty"`
	// Devices are its names in the pool. Reason is why it is not in the pool, or not as configured.
	Devices []string `json:"devices"`
	Reason  string   `json:"reason,omitempty"`
	// Claims are the claims that hold it, as namespace/name.
	Claims []string `json:"claims"`
}

// Condition is a condition of an HCA that holds.
type Condition struct {
	Condition string    `json:"condition"` // as in its taint, without the domain
	Since     time.Time `json:"since"`
	Message   string    `json:"message"`
	// Sick says that the HCA needs a repair: not for a port that nobody cabled, nor for a condition whose effect is Off.
	Sick bool `json:"sick"`
}

// Change is something of an HCA that became different.
type Change struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Port is one port of an HCA.
type Port struct {
	Number   int    `json:"number"`
	State    string `json:"state"`
	RateMbps int    `json:"rateMbps,omitempty"` // while it is ACTIVE
	Netdev   string `json:"netdev,omitempty"`
	// Leaf is what is known of the other end of its cable.
	Leaf *Leaf `json:"leaf,omitempty"`
}

// Leaf is the leaf switch to which a port is connected, or why it is not known.
type Leaf struct {
	Switch  string `json:"switch,omitempty"`
	Port    string `json:"port,omitempty"`    // of the switch
	Fabric  string `json:"fabric,omitempty"`  // the network
	Source  string `json:"source,omitempty"`  // networkd, file or table
	Planned string `json:"planned,omitempty"` // by the table of the site
	// Since is when it began to count, and Seen when the source last said it.
	Since *time.Time `json:"since,omitempty"`
	Seen  *time.Time `json:"seen,omitempty"`
	// Reason is why there is no switch, or what else is seen.
	Reason string `json:"reason,omitempty"`
}

// Claim is a claim that is prepared on the node.
type Claim struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	UID       string   `json:"uid"`
	Devices   []Device `json:"devices"`
	// Pods are the pods that use it, as the kubelet reports them.
	Pods []string `json:"pods"`
}

// Device is one device of a claim.
type Device struct {
	Request     string   `json:"request"`
	Device      string   `json:"device"`
	HCAs        []string `json:"hcas"` // ibdev names; the HCA's name if it is absent
	ShareID     string   `json:"shareID,omitempty"`
	AdminAccess bool     `json:"adminAccess,omitempty"`
}

// Path is the URL path of the page.
const Path = "/status"

// Formats are the formats of a page.
var Formats = []string{"json", "table"}
