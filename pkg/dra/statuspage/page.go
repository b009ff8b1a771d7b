package statuspage

import (
	"time"

	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// Page is what a driver knows of its node at one moment.
type Page struct {
	Node    string    `json:"node"`
	Version string    `json:"version"` // of the driver
	Started time.Time `json:"started"`
	At      time.Time `json:"at"`
	// Registered is whether the kubelet has registered the driver.
	Registered bool `json:"registered"`
	// NRI is whether the container runtime has the driver's NRI plugin: connected or
	// not connected, and empty for a driver without one.
	NRI string `json:"nri,omitempty"`
	// Problems are what is wrong with the node, the API server or the driver itself, in
	// words; what is wrong with an HCA stands there.
	Problems []string `json:"problems"`
	// Topology is where HCAs and accelerators sit.
	Topology *topology.Topology `json:"topology"`
	HCAs     []HCA              `json:"hcas"`
	Groups   []Group            `json:"groups"`
	Claims   []Claim            `json:"claims"`
	// Events are the newest first.
	Events []Event `json:"events"`
}

// HCA is one HCA of the host, or one that a claim holds though it is gone.
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
	// Health is what the kubelet is told: Healthy, Unhealthy or Unknown; empty for one that
	// no container can be given. Fault says what is wrong.
	Health string `json:"health,omitempty"`
	Fault  string `json:"fault,omitempty"`
	// Taints are key:effect.
	Taints []string `json:"taints,omitempty"`
	// Devices are the names that it has in the pool. Reason says why it is not in the pool, or not as configured.
	Devices []string `json:"devices"`
	Reason  string   `json:"reason,omitempty"`
	// Claims are those that hold it, as namespace/name.
	Claims []string `json:"claims"`
}

// Port is one port of an HCA.
type Port struct {
	Number   int    `json:"number"`
	State    string `json:"state"`
	RateMbps int    `json:"rateMbps,omitempty"` // while it is ACTIVE
	Netdev   string `json:"netdev,omitempty"`
}

// Group is a group of HCAs that the site defines.
type Group struct {
	Name      string   `json:"name"`
	Published bool     `json:"published"`
	Reason    string   `json:"reason,omitempty"`
	Members   []string `json:"members"` // names of HCAs
}

// Claim is a claim that is prepared on the node.
type Claim struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	UID       string   `json:"uid"`
	Devices   []Device `json:"devices"`
	// Pods are those that use it, by the kubelet's word.
	Pods []string `json:"pods"`
}

// Device is one device of a claim.
type Device struct {
	Request     string   `json:"request"`
	Device      string   `json:"device"`
	HCAs        []string `json:"hcas"` // ibdev names; the HCA's name for one that is gone
	ShareID     string   `json:"shareID,omitempty"`
	AdminAccess bool     `json:"adminAccess,omitempty"`
}

// Path is where a driver serves its page.
const Path = "/status"

// Formats are the ways to write a page.
var Formats = []string{"html", "json", "table"}
