// Package nodestatus is the one description of a node: its HCAs with their health, what is published of them and why,
// the claims, and the last events.
//
// A [Status] is data. The package writes it as tables for a terminal, and as JSON or YAML for programs. These also have
// the positions of HCAs and accelerators. The content comes from the kernel, from users' names and from error messages,
// so the tables escape all that moves a terminal's cursor.
//
// A [Log] keeps a bounded number of the last events.
package nodestatus

import (
	"iter"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// Status is the state of a node at one time: of one with a driver, or of one as a driver without claims would describe
// it.
type Status struct {
	Node    string    `json:"node,omitempty"`
	Version string    `json:"version,omitempty"` // of the driver
	Started time.Time `json:"started,omitzero"`
	At      time.Time `json:"at"`
	// Registered is whether the kubelet has registered the driver.
	Registered bool `json:"registered"`
	// NRI is the connection of the driver's NRI plugin to the container runtime: connected or
	// not connected, and empty for a driver without one.
	NRI string `json:"nri,omitempty"`
	// NetnsMode is the host's RDMA network namespace mode, "" if it is not known.
	NetnsMode string `json:"netnsMode,omitempty"`
	// PodsKnown is whether the kubelet said which pods use which claims.
	PodsKnown bool `json:"podsKnown"`
	// ConfigRefused is whether the driver does not use its policy as it is now.
	ConfigRefused bool `json:"configRefused,omitempty"`
	// Problems are the problems of the node, the API server or the driver, as text. HCAs have
	// their own.
	Problems []string `json:"problems"`
	// Lacks are what containers do not get on this host, with the reasons.
	Lacks []string `json:"lacks,omitempty"`
	// Features are the states of optional features of the API server, by their feature gates: those that the file needs on
	// this host, and those that are missing.
	Features map[string]string `json:"features,omitempty"`
	// Notes are sentences about features that are not there or not seen. Before a file is in force, they also say what of
	// it matches nothing: in force on all nodes, a rule may well be for others.
	Notes []string `json:"notes,omitempty"`
	// Unapplied is what the file says of rails and ipam without effect on this host, with the reasons.
	Unapplied []string `json:"unapplied,omitempty"`
	// Topology has the positions of HCAs and accelerators.
	Topology *topology.Topology `json:"topology,omitempty"`
	HCAs     []HCA              `json:"hcas"`
	Groups   []Group            `json:"groups,omitempty"`
	Claims   []Claim            `json:"claims"`
	// IPAM has the entries of ipam, with the node's blocks of addresses.
	IPAM []blocks.Usage `json:"ipam,omitempty"`
	// Events are in order, the newest first.
	Events []Event `json:"events"`
}

// HCA is one HCA of the host, or an absent one that a claim holds.
type HCA struct {
	Name     string `json:"name"`
	IBDev    string `json:"ibdev"`
	Function string `json:"function"`
	Protocol string `json:"protocol,omitempty"`
	// Absent means that it is not on the host.
	Absent   bool   `json:"absent,omitempty"`
	Driver   string `json:"driver,omitempty"`
	BoardID  string `json:"boardID,omitempty"`
	Model    string `json:"model,omitempty"`
	Firmware string `json:"firmware,omitempty"`
	PCI      string `json:"pci,omitempty"`
	NUMANode *int   `json:"numaNode,omitempty"`
	Ports    []Port `json:"ports"`
	// Rule is the rule that matched, or the rule with an error; "" for none.
	Rule string `json:"rule,omitempty"`
	// Wanted is the rule's setting, and Published the result: none, exclusive, shared or both.
	Wanted    string `json:"wanted,omitempty"`
	Published string `json:"published,omitempty"`
	// Reason is why Published differs from Wanted, or is none.
	Reason string `json:"reason,omitempty"`
	// Devices are its devices in the pool.
	Devices []Device `json:"devices"`
	// Attributes are the attributes that the policy sets.
	Attributes map[string]any `json:"attributes,omitempty"`
	// Marks are the marks of packets that the rule gives to libraries of claims.
	v1alpha1.Marks
	// Interface is the network interface that claims can request. It is nil if the driver attaches no interfaces, if the
	// HCA is not published, and in the status of a running driver.
	Interface *Interface `json:"interface,omitempty"`
	// VLAN is the VLAN of its rule, 0 for none.
	VLAN int `json:"vlan,omitempty"`
	// Health is the status for the kubelet: Healthy, Unhealthy or Unknown; empty for an
	// unusable HCA. Fault is the fault.
	Health string `json:"health,omitempty"`
	Fault  string `json:"fault,omitempty"`
	// Conditions are the conditions that hold, in order of importance.
	Conditions []Condition `json:"conditions,omitempty"`
	// Unused means that it is down because nobody cabled it.
	Unused bool `json:"unused,omitempty"`
	// Falls is in how many incidents a port of it fell within a day.
	Falls int `json:"falls,omitempty"`
	// History is what happened to it lately, in one line. Recent are its last changes, the oldest first.
	History string   `json:"history,omitempty"`
	Recent  []Change `json:"recent,omitempty"`
	// Taints are key:effect.
	Taints []string `json:"taints,omitempty"`
	// Claims are the claims that hold it, as namespace/name.
	Claims []string `json:"claims"`
}

// Group is what is published of one group.
type Group struct {
	Name      string   `json:"name"`
	Published bool     `json:"published"`
	Reason    string   `json:"reason,omitempty"`
	Members   []string `json:"members"` // names of HCAs
	Devices   []Device `json:"devices,omitempty"`
}

// Device is a device in the pool.
type Device struct {
	Name string `json:"name"`
	// Capacity is what claims consume of it.
	Capacity map[string]Capacity `json:"capacity,omitempty"`
}

// Capacity is a capacity of a device, with the default of a claim.
type Capacity struct {
	Total   string `json:"total"`
	Default string `json:"default,omitempty"`
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
	PCIeMbps int    `json:"pcieMbps,omitempty"` // what PCIe carries, if that is less than the members of its LAG do
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
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	UID       string        `json:"uid"`
	Devices   []ClaimDevice `json:"devices"`
	// Pods are the pods that use it, as the kubelet reports them.
	Pods []string `json:"pods"`
}

// ClaimDevice is one device of a claim.
type ClaimDevice struct {
	Request     string   `json:"request"`
	Device      string   `json:"device"`
	HCAs        []string `json:"hcas"` // ibdev names; the HCA's name if it is absent
	ShareID     string   `json:"shareID,omitempty"`
	AdminAccess bool     `json:"adminAccess,omitempty"`
	// Pods are the claim's pods whose containers have it.
	Pods []string `json:"pods,omitempty"`
}

// Devices returns the devices in the pool: those of HCAs, and those of groups.
func (s *Status) Devices() iter.Seq[*Device] {
	return func(yield func(*Device) bool) {
		for i := range s.HCAs {
			for j := range s.HCAs[i].Devices {
				if !yield(&s.HCAs[i].Devices[j]) {
					return
				}
			}
		}
		for i := range s.Groups {
			for j := range s.Groups[i].Devices {
				if !yield(&s.Groups[i].Devices[j]) {
					return
				}
			}
		}
	}
}

// Path is the URL path of the status.
const Path = "/status"

// Formats are the formats of a status.
var Formats = []string{"table", "json", "yaml"}
