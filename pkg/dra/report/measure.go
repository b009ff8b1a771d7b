package report

import (
	"context"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/podresources"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/counters"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmacgroup"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// These constants bound the result of one scrape (docs/metrics.md).
const (
	maxCounters    = 16384 // series of counters; beyond it, whole HCAs are omitted
	maxAllocations = 4096
	maxContainers  = 1024 // on one HCA each

	perPort = 4 // series of traffic, besides the counters that they are made from
)

// Metrics returns the state of the node for a scrape. It reads the counters of the host until ctx ends.
func Metrics(ctx context.Context, in Inputs) metrics.State {
	owners := ownersOf(in.View.Plans, in.Pods)
	s := metrics.State{
		Allocations: owners.allocations(), Conditions: map[string]int{},
		Published: kinds(maps.Keys(in.Published)), Allocated: kinds(maps.Keys(allocatedDevices(in.View.Plans))),
		PreparedClaims: len(in.View.Plans),
		Registered:     in.Registered, PodsKnown: in.Pods != nil, NRIConnected: in.NRIConnected,
		Refused: in.Refused,
	}
	s.Blocks = in.IPAM
	s.Troubles, s.Failures = failures(in.Troubles)
	s.Devices = describe(in.View.Snapshot, owners)
	s.Omitted = readAllCounters(ctx, in.View.Sys, s.Devices)
	addHealth(&s, in)
	s.Containers = containers(in.Cgroups, in.View.Snapshot, owners)
	return s
}

// owners has, for each HCA, the claims that hold it and their pods. Access for monitoring does not count.
type owners map[string][]metrics.Allocation

func ownersOf(plans []*plan.Plan, pods podresources.Claims) owners {
	out := owners{}
	for _, p := range plans {
		for _, dev := range p.Devices {
			if dev.AdminAccess {
				continue
			}
			for _, hca := range dev.HCAs() {
				for _, a := range allocationsOf(hca, dev, p, pods) {
					if !slices.Contains(out[hca], a) { // two requests of one claim cause the same
						out[hca] = append(out[hca], a)
					}
				}
			}
		}
	}
	return out
}

// allocationsOf returns an entry for each pod that uses a device of a claim. If no pod is known, it returns one entry
// without a pod.
func allocationsOf(hca string, dev plan.Device, p *plan.Plan, pods podresources.Claims) []metrics.Allocation {
	a := metrics.Allocation{Device: hca, DRADevice: dev.Device, Owner: metrics.Owner{Namespace: p.Namespace, Claim: p.Name}}
	var out []metrics.Allocation
	for _, pod := range pods[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] {
		if pod.Devices == nil || slices.Contains(pod.Devices, dev.Device) {
			a.Owner.Pod = pod.Name
			out = append(out, a)
		}
	}
	if out == nil {
		out = []metrics.Allocation{a}
	}
	return out
}

// ownerOf returns the only claim that holds an HCA, and its only pod. Fields without a single value are empty.
func (o owners) ownerOf(hca string) metrics.Owner {
	list := o[hca]
	if len(list) == 0 {
		return metrics.Owner{}
	}
	owner := list[0].Owner
	for _, a := range list[1:] {
		if a.Owner.Namespace != owner.Namespace || a.Owner.Claim != owner.Claim {
			return metrics.Owner{}
		}
		if a.Owner.Pod != owner.Pod {
			owner.Pod = ""
		}
	}
	return owner
}

func (o owners) allocations() []metrics.Allocation {
	var out []metrics.Allocation
	for _, hca := range slices.Sorted(maps.Keys(o)) {
		out = append(out, o[hca]...)
	}
	return out[:min(len(out), maxAllocations)]
}

// describe returns the HCAs that containers have or can have. HCAs with an owner come first, then PFs, then the others:
// counters are read in this order.
func describe(snap *rdma.Snapshot, owners owners) []metrics.Device {
	var out []metrics.Device
	rank := map[string]int{}
	for i := range snap.HCAs {
		h := &snap.HCAs[i]
		switch held := len(owners[h.Name]) > 0; {
		case held:
			rank[h.Name] = 0
		case h.Unusable() != nil:
			continue
		case h.Function == rdma.PF || h.Function == rdma.Virtual:
			rank[h.Name] = 1
		default:
			rank[h.Name] = 2
		}
		out = append(out, describeHCA(h, owners.ownerOf(h.Name)))
	}
	slices.SortStableFunc(out, func(a, b metrics.Device) int { return rank[a.Name] - rank[b.Name] })
	return out
}

func describeHCA(h *rdma.HCA, owner metrics.Owner) metrics.Device {
	m := metrics.Device{
		Name: h.Name, IBDev: h.IBDev, Driver: h.Driver, Function: string(h.Function), Protocol: string(h.Protocol),
		Model: h.Model, BoardID: h.BoardID, Firmware: h.Firmware, Owner: owner,
	}
	if h.PCI != nil {
		m.PCI = h.PCI.Address
		if numa := h.DataFunction().NUMANode; numa != nil {
			m.NUMANode = strconv.Itoa(*numa)
		}
	}
	for p := range h.OwnPorts() {
		m.Ports = append(m.Ports, metrics.Port{
			Number: p.Number, Active: p.State == rdma.PortActive, BytesPerSecond: float64(p.RateMbps) * 1e6 / 8,
		})
	}
	return m
}

// readAllCounters reads the counters of HCAs until there are too many or ctx ends. It returns the number of omitted
// HCAs.
func readAllCounters(ctx context.Context, sys fs.FS, devices []metrics.Device) (omitted int) {
	left := maxCounters
	for i := range devices {
		m := &devices[i]
		if left <= 0 || ctx.Err() != nil {
			omitted++
			continue
		}
		m.Counters = counters.ReadDevice(sys, m.IBDev)
		left -= len(m.Counters.Hardware)
		for j := range m.Ports {
			c := counters.ReadPort(sys, m.IBDev, m.Ports[j].Number)
			m.Ports[j].Counters = c
			left -= len(c.Standard) + len(c.Hardware) + perPort
		}
	}
	return omitted
}

// addHealth adds the health and the taints of HCAs.
func addHealth(s *metrics.State, in Inputs) {
	view := in.View.Health
	for condition, n := range view.Counts() {
		s.Conditions[string(condition)] = n
	}
	for i := range s.Devices {
		m := &s.Devices[i]
		if verdict, judged := view.Verdict(m.Name); judged {
			m.Unused = verdict.Unused
			status, _ := view.Report(m.Name, time.Now())
			m.Healthy = new(status == health.Healthy)
			m.Falls = view.History(m.Name).Falls
			for _, f := range verdict.Faults {
				m.Conditions = append(m.Conditions, string(f.Condition))
			}
		}
		for _, t := range in.Taints[m.Name] {
			m.Taints = append(m.Taints, metrics.Taint{Key: t.Key, Effect: string(t.Effect)})
		}
	}
}

// containers returns what containers use of the HCAs of claims. If the kernel's cgroups cannot be read, it returns
// none.
func containers(cgroups fs.FS, snap *rdma.Snapshot, owners owners) []metrics.Container {
	var out []metrics.Container
	for _, u := range rdmacgroup.Read(cgroups) {
		i := slices.IndexFunc(snap.HCAs, func(h rdma.HCA) bool { return h.IBDev == u.IBDev })
		if i < 0 || len(owners[snap.HCAs[i].Name]) == 0 {
			continue // no claim has it: a privileged container opened it
		}
		name := snap.HCAs[i].Name
		out = append(out, metrics.Container{Usage: u, Device: name, Owner: owners.ownerOf(name)})
	}
	return out[:min(len(out), maxContainers)]
}

// failures returns the present problems with the API server, and the number of failed requests since the start.
func failures(t *apiclient.Troubles) (now []metrics.Failure, counts map[metrics.Failure]int) {
	for _, one := range t.Current() {
		now = append(now, metrics.Failure{Request: one.Request, Reason: string(one.Reason)})
	}
	counts = map[metrics.Failure]int{}
	for f, n := range t.Failures() {
		counts[metrics.Failure{Request: f.Request, Reason: string(f.Reason)}] = n
	}
	return now, counts
}

// kinds returns the number of devices of each kind in the pool.
func kinds(devices iter.Seq[string]) map[string]int {
	into := map[string]int{"exclusive": 0, "shared": 0, "group": 0}
	for device := range devices {
		switch name := devicename.Parse(device); {
		case name.Group != "":
			into["group"]++
		case name.Shared:
			into["shared"]++
		default:
			into["exclusive"]++
		}
	}
	return into
}

// allocatedDevices returns the devices of the pool that claims hold.
func allocatedDevices(plans []*plan.Plan) sets.Set[string] {
	names := sets.New[string]()
	for _, p := range plans {
		for _, dev := range p.Devices {
			if !dev.AdminAccess {
				names.Insert(dev.Device)
			}
		}
	}
	return names
}
