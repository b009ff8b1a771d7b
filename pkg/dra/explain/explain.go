// Package explain reports what a node publishes of its HCAs, and why: the result of a policy on a
// host, as text and tables for people, and as data for programs.
//
// It reads only the host and the configuration file. It does not know the claims, whose HCAs stay published in
// their form until the claims end. It also does not know the features of the API server. The driver's log
// reports both.
package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Report is what a node publishes, with the reasons.
type Report struct {
	// NetnsMode is the host's RDMA network namespace mode, "" if it is not known.
	NetnsMode string `json:"netnsMode,omitempty"`
	// Partitioning says whether devices of one card exclude each other by counters.
	Partitioning bool `json:"partitioning"`
	// LimitsEnforced says whether the kernel can enforce limits on HCAs for containers. If not,
	// Limits is the reason.
	LimitsEnforced bool   `json:"limitsEnforced"`
	Limits         string `json:"limits,omitempty"`
	// GIDIndexes is why containers are not told the GID indexes of their interfaces, "" if they are.
	GIDIndexes string `json:"gidIndexes,omitempty"`
	// IPv6 is why routers on the fabric can give pods addresses and routes, "" if they cannot.
	IPv6 string `json:"ipv6,omitempty"`
	// Problems are what of the host could not be read. HCAs may be missing.
	Problems []string `json:"problems,omitempty"`
	// HCAs has an entry for each HCA of the host, published or not.
	HCAs   []HCA   `json:"hcas"`
	Groups []Group `json:"groups,omitempty"`
	// IPAM has the entries of ipam.
	IPAM []IPAM `json:"ipam,omitempty"`
	// Unapplied is what the file says of rails and ipam without effect on this host, with the reasons.
	Unapplied []string `json:"unapplied,omitempty"`
}

// HCA is what is published of one HCA.
type HCA struct {
	Name     string `json:"name"`
	IBDev    string `json:"ibdev"`
	Function string `json:"function"`
	// Rule is the rule that matched, or the rule with an error; "" for none.
	Rule string `json:"rule,omitempty"`
	// Wanted is the rule's setting, and Published the result: none, exclusive, shared or
	// both.
	Wanted    string `json:"wanted"`
	Published string `json:"published"`
	// Reason is why Published differs from Wanted, or is none.
	Reason string `json:"reason,omitempty"`
	// Health is the kubelet's status after the first observation of the HCA: Healthy, Unhealthy
	// or Unknown; "" for an unusable HCA. Fault is the fault.
	Health string `json:"health,omitempty"`
	Fault  string `json:"fault,omitempty"`
	// Taints are those of its devices, as key:effect.
	Taints []string `json:"taints,omitempty"`
	// Devices are the HCA's devices in the pool.
	Devices []Device `json:"devices,omitempty"`
	// Attributes are the attributes that the policy sets.
	Attributes map[string]any `json:"attributes,omitempty"`
	// Marks are the marks of packets that the rule gives to libraries of claims.
	v1alpha1.Marks
	// Interface is the network interface that claims can request. It is nil if the driver attaches no
	// interfaces, or the HCA is not published.
	Interface *Interface `json:"interface,omitempty"`
	// VLAN is the VLAN of its rule, 0 for none.
	VLAN int `json:"vlan,omitempty"`
}

// Group is what is published of one group.
type Group struct {
	Name      string   `json:"name"`
	Published bool     `json:"published"`
	Reason    string   `json:"reason,omitempty"`
	Members   []string `json:"members"` // names of HCAs
	Devices   []Device `json:"devices,omitempty"`
}

// NewGroup returns a group without its devices. published is whether it is in the pool.
func NewGroup(g policy.GroupDecision, published bool) Group {
	group := Group{Name: g.Group.Name, Published: published, Reason: g.Reason, Members: []string{}}
	for _, h := range g.Group.Members {
		group.Members = append(group.Members, h.Name)
	}
	return group
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

// New applies a policy to a host. limits is why the host cannot enforce limits on containers, nil if
// it can. fixed is policy.State.Fixed.
func New(snap *rdma.Snapshot, c *policy.Config, limits error, fixed map[string]string) *Report {
	view := look(snap)
	state := policy.State{
		Taints: view.Taints(health.Policy{Effects: c.TaintEffects(), Informational: true}), Fixed: fixed,
	}
	result := c.Apply(snap, state)
	r := &Report{NetnsMode: string(snap.NetnsMode), Partitioning: c.Partitioning(), LimitsEnforced: limits == nil}
	r.Unapplied = result.Unapplied
	for _, p := range snap.Problems {
		r.Problems = append(r.Problems, p.Error())
	}
	if limits != nil {
		r.Limits = limits.Error()
	}
	r.IPAM = ipam(c, result.Decisions)
	published := map[string]resourceapi.Device{}
	for _, s := range result.Slices() {
		for _, d := range s.Devices {
			published[d.Name] = d
		}
	}
	for _, d := range result.Decisions {
		h := describe(d, published)
		h.VLAN = d.VLAN
		if verdict, ok := view.Verdict(h.Name); ok {
			h.Health, h.Fault = string(verdict.Status()), verdict.Message()
		}
		for _, t := range state.Taints[h.Name] {
			h.Taints = append(h.Taints, t.Key+":"+string(t.Effect))
		}
		r.HCAs = append(r.HCAs, h)
	}
	for _, g := range result.Groups {
		group := NewGroup(g, g.Published)
		group.Devices = devices(published, devicename.Group(g.Group.Name))
		r.Groups = append(r.Groups, group)
	}
	return r
}

// look returns the health after one observation. A fault at the first observation counts.
func look(snap *rdma.Snapshot) *health.View {
	model := health.New(health.DefaultConfig())
	model.Observe(health.Observation{Snapshot: snap}, time.Unix(0, 0))
	return model.View()
}

func describe(d policy.Decision, published map[string]resourceapi.Device) HCA {
	out := HCA{
		Name: d.HCA.Name, IBDev: d.HCA.IBDev, Function: string(d.HCA.Function),
		Rule: d.Rule, Wanted: string(d.Wanted), Published: string(d.Form), Reason: d.Reason, Marks: d.Marks,
	}
	if d.Form == resources.FormNone {
		return out
	}
	out.Devices = devices(published, d.HCA.Name, devicename.Shared(d.HCA.Name))
	for name, value := range d.Offer.Attributes {
		if out.Attributes == nil {
			out.Attributes = map[string]any{}
		}
		out.Attributes[string(name)] = valueOf(value)
	}
	return out
}

// devices returns the published devices among the named ones.
func devices(published map[string]resourceapi.Device, names ...string) []Device {
	var out []Device
	for _, name := range names {
		d, ok := published[name]
		if !ok {
			continue
		}
		one := Device{Name: name}
		for capacity, c := range d.Capacity {
			if one.Capacity == nil {
				one.Capacity = map[string]Capacity{}
			}
			total := Capacity{Total: c.Value.String()}
			if c.RequestPolicy != nil && c.RequestPolicy.Default != nil {
				total.Default = c.RequestPolicy.Default.String()
			}
			one.Capacity[string(capacity)] = total
		}
		out = append(out, one)
	}
	return out
}

func valueOf(a resourceapi.DeviceAttribute) any {
	switch {
	case a.StringValue != nil:
		return *a.StringValue
	case a.IntValue != nil:
		return *a.IntValue
	case a.BoolValue != nil:
		return *a.BoolValue
	case a.VersionValue != nil:
		return *a.VersionValue
	}
	return nil
}

// notes numbers reasons, so that the output has each of them once.
type notes []string

func (n *notes) number(reasons ...string) string {
	var numbers []string
	for _, reason := range reasons {
		if reason == "" {
			continue
		}
		i := slices.Index(*n, reason)
		if i < 0 {
			i = len(*n)
			*n = append(*n, reason)
		}
		if number := fmt.Sprint(i + 1); !slices.Contains(numbers, number) {
			numbers = append(numbers, number)
		}
	}
	return strings.Join(numbers, ",")
}
