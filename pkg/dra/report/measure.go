package report

import (
	"cmp"
	"context"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/counters"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmacgroup"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// These constants bound the result of one scrape (docs/metrics.md).
const (
	maxCounters    = 16384 // series of counters; beyond it, whole HCAs are omitted
	maxAllocations = 4096
	maxContainers  = 1024 // on one HCA each

	perPort = 4 // series of traffic, besides the counters that they are made from
)

// Measure writes the status of the node as metrics. Beside the status it reads what only metrics have: counters of the
// kernel, what containers use of HCAs, and failures of requests. It reads the host until ctx ends.
func Measure(ctx context.Context, in Inputs, to metrics.Samples) {
	s := scrape{to, describe(in)}
	held := ownersOf(s.Status)
	s.node()
	s.requests(in.Troubles)
	s.allocations(held)
	s.hcas(ctx, in.View.Sys, held)
	s.containers(in.Cgroups, held)
}

// scrape sends the samples of one status.
type scrape struct {
	metrics.Samples
	*nodestatus.Status
}

// node sends what concerns the whole node.
func (s scrape) node() {
	published, allocated, conditions := kinds{}, kinds{}, map[string]int{}
	for _, c := range health.Conditions() {
		conditions[string(c)] = 0
	}
	for _, h := range s.HCAs {
		published.add(h.Devices)
		for _, c := range h.Conditions {
			conditions[c.Condition]++
		}
	}
	for _, g := range s.Groups {
		published.add(g.Devices)
	}
	for name := range s.allocatedDevices() {
		allocated.add([]nodestatus.Device{{Name: name}})
	}
	s.kinds(metrics.PublishedDevices, published)
	s.kinds(metrics.AllocatedDevices, allocated)
	for condition, n := range conditions {
		s.Put(metrics.Conditions, float64(n), condition)
	}
	s.Put(metrics.PreparedClaims, float64(len(s.Claims)))
	s.Put(metrics.Registered, boolValue(s.Registered))
	s.Put(metrics.PodsKnown, boolValue(s.PodsKnown))
	s.Put(metrics.ConfigRefused, boolValue(s.ConfigRefused))
	if s.NRI != "" {
		s.Put(metrics.NRIConnected, boolValue(s.NRI == nriConnected))
	}
	for _, b := range s.IPAM {
		s.Put(metrics.IPAMAddresses, float64(b.Size), b.IPAM)
		s.Put(metrics.IPAMUsed, float64(len(b.Addresses)), b.IPAM)
	}
}

// allocatedDevices returns the names of the devices of the pool that claims hold.
func (s scrape) allocatedDevices() map[string]bool {
	names := map[string]bool{}
	for _, c := range s.Claims {
		for _, d := range c.Devices {
			if !d.AdminAccess {
				names[d.Device] = true
			}
		}
	}
	return names
}

// kinds counts devices of the pool: groups, shared and exclusive ones.
type kinds struct{ group, shared, exclusive int }

func (k *kinds) add(devices []nodestatus.Device) {
	for _, d := range devices {
		switch name := devicename.Parse(d.Name); {
		case name.Group != "":
			k.group++
		case name.Shared:
			k.shared++
		default:
			k.exclusive++
		}
	}
}

func (s scrape) kinds(m metrics.Metric, k kinds) {
	s.Put(m, float64(k.group), "group")
	s.Put(m, float64(k.shared), "shared")
	s.Put(m, float64(k.exclusive), "exclusive")
}

// requests sends the present problems with the API server, and the number of failed requests since the start.
func (s scrape) requests(t *apiclient.Troubles) {
	for _, one := range t.Current() {
		s.Put(metrics.APITrouble, 1, one.Request, string(one.Reason))
	}
	for f, n := range t.Failures() {
		s.Put(metrics.APIFailures, float64(n), f.Request, string(f.Reason))
	}
}

// owner is a claim that holds an HCA, by a device of the pool, and one of the pods that use it: "" if none is known.
type owner struct{ namespace, claim, pod, device string }

// owners has the owners of each HCA. Access for monitoring does not count.
type owners map[string][]owner

func ownersOf(s *nodestatus.Status) owners {
	names := map[string]string{} // of present HCAs, by ibdev
	for _, h := range s.HCAs {
		if !h.Absent {
			names[h.IBDev] = h.Name
		}
	}
	out := owners{}
	for _, c := range s.Claims {
		for _, d := range c.Devices {
			if d.AdminAccess {
				continue
			}
			for _, hca := range d.HCAs {
				out.add(cmp.Or(names[hca], hca), c, d)
			}
		}
	}
	return out
}

// add adds an owner for each pod that uses a device of a claim, or one without a pod.
func (o owners) add(hca string, c nodestatus.Claim, d nodestatus.ClaimDevice) {
	pods := d.Pods
	if len(pods) == 0 {
		pods = []string{""}
	}
	for _, pod := range pods {
		one := owner{c.Namespace, c.Name, pod, d.Device}
		if !slices.Contains(o[hca], one) { // two requests of one claim cause the same
			o[hca] = append(o[hca], one)
		}
	}
}

// labels returns the labels namespace, claim and pod of the only claim that holds an HCA, and of its only pod. Labels
// without a single value are empty.
func (o owners) labels(hca string) []string {
	all := o[hca]
	if len(all) == 0 {
		return []string{"", "", ""}
	}
	only := all[0]
	for _, h := range all[1:] {
		if h.namespace != only.namespace || h.claim != only.claim {
			return []string{"", "", ""}
		}
		if h.pod != only.pod {
			only.pod = ""
		}
	}
	return []string{only.namespace, only.claim, only.pod}
}

func (s scrape) allocations(held owners) {
	left := maxAllocations
	for _, hca := range slices.Sorted(maps.Keys(held)) {
		for _, h := range held[hca][:min(left, len(held[hca]))] {
			s.Put(metrics.DeviceAllocation, 1, hca, h.device, h.namespace, h.claim, h.pod)
			left--
		}
	}
}

// inOrder returns the HCAs that containers have or can have. HCAs with an owner come first, then PFs, then the others:
// counters are read in this order.
func (s scrape) inOrder(held owners) []*nodestatus.HCA {
	var owned, heads, others []*nodestatus.HCA
	for i := range s.HCAs {
		switch h := &s.HCAs[i]; {
		case h.Absent:
		case len(held[h.Name]) > 0:
			owned = append(owned, h)
		case h.Health == "": // no container can have it
		case h.Function == string(rdma.PF) || h.Function == string(rdma.Virtual):
			heads = append(heads, h)
		default:
			others = append(others, h)
		}
	}
	return slices.Concat(owned, heads, others)
}

// hcas sends the HCAs with their counters, which it reads until there are too many or ctx ends.
func (s scrape) hcas(ctx context.Context, sys fs.FS, held owners) {
	left, omitted, unreadable := maxCounters, 0, 0
	for _, h := range s.inOrder(held) {
		s.hca(h)
		counted := left > 0 && ctx.Err() == nil
		if !counted {
			omitted++
		}
		owner := held.labels(h.Name)
		for _, p := range h.Ports {
			labels := append([]string{h.Name, h.IBDev, strconv.Itoa(p.Number)}, owner...)
			s.port(p, labels)
			if counted {
				c := counters.ReadPort(sys, h.IBDev, p.Number)
				s.portCounters(c, labels)
				left -= len(c.Standard) + len(c.Hardware) + perPort
				unreadable += c.Unreadable
			}
		}
		if counted {
			c := counters.ReadDevice(sys, h.IBDev)
			s.counters(metrics.DeviceHWCounter, metrics.DeviceHWLevel, c.Hardware,
				append([]string{h.Name, h.IBDev}, owner...))
			left -= len(c.Hardware)
			unreadable += c.Unreadable
		}
	}
	s.Put(metrics.CountersOmitted, float64(omitted))
	s.Put(metrics.CountersUnreadable, float64(unreadable))
}

func (s scrape) hca(h *nodestatus.HCA) {
	numa := ""
	if h.NUMANode != nil {
		numa = strconv.Itoa(*h.NUMANode)
	}
	s.Put(metrics.DeviceInfo, 1, h.Name, h.IBDev, h.Driver, h.Function, h.Protocol, h.Model, h.BoardID, h.Firmware,
		h.PCI, numa)
	if h.Unused {
		s.Put(metrics.DeviceUnused, 1, h.Name, h.IBDev)
	}
	if h.Health != "" {
		s.Put(metrics.DeviceHealthy, boolValue(h.Health == string(health.Healthy)), h.Name, h.IBDev)
		s.Put(metrics.DeviceFalls, float64(h.Falls), h.Name, h.IBDev)
	}
	for _, taint := range h.Taints {
		key, effect, _ := strings.Cut(taint, ":")
		s.Put(metrics.DeviceTaint, 1, h.Name, h.IBDev, key, effect)
	}
	for _, c := range h.Conditions {
		s.Put(metrics.DeviceCondition, 1, h.Name, h.IBDev, c.Condition)
	}
}

func (s scrape) port(p nodestatus.Port, labels []string) {
	active := p.State == string(rdma.PortActive)
	s.Put(metrics.PortActive, boolValue(active), labels...)
	if active && p.RateMbps > 0 {
		s.Put(metrics.PortSpeed, float64(p.RateMbps)*1e6/8, labels...)
	}
}

func (s scrape) portCounters(c counters.Port, labels []string) {
	t := c.Traffic()
	putOptional(s, metrics.PortReceivedBytes, t.ReceivedBytes, labels)
	putOptional(s, metrics.PortTransmittedBytes, t.TransmittedBytes, labels)
	putOptional(s, metrics.PortReceivedPackets, t.ReceivedPackets, labels)
	putOptional(s, metrics.PortTransmittedPackets, t.TransmittedPackets, labels)
	s.counters(metrics.PortCounter, metrics.PortCounter, c.Standard, labels)
	s.counters(metrics.PortHWCounter, metrics.PortHWLevel, c.Hardware, labels)
}

// counters sends the counters of a directory. Those that hold a level go to the gauge.
func (s scrape) counters(count, level metrics.Metric, list []counters.Counter, labels []string) {
	for _, c := range list {
		m := count
		if counters.IsGauge(c.Name) {
			m = level
		}
		s.Put(m, float64(c.Value), append(labels[:len(labels):len(labels)], c.Name)...)
	}
}

// containers sends what containers use of the HCAs of claims. If the kernel's cgroups cannot be read, it sends none.
func (s scrape) containers(cgroups fs.FS, held owners) {
	left := maxContainers
	for _, u := range rdmacgroup.Read(cgroups) {
		i := slices.IndexFunc(s.HCAs, func(h nodestatus.HCA) bool { return !h.Absent && h.IBDev == u.IBDev })
		if i < 0 || len(held[s.HCAs[i].Name]) == 0 {
			continue // no claim has it: a privileged container opened it
		}
		if left--; left < 0 {
			return
		}
		name := s.HCAs[i].Name
		labels := append([]string{name, u.IBDev}, held.labels(name)...)
		labels = append(labels, u.PodUID, u.Container)
		s.Put(metrics.ContainerHandles, float64(u.Handles), labels...)
		s.Put(metrics.ContainerObjects, float64(u.Objects), labels...)
		putOptional(s, metrics.ContainerMaxHandles, u.MaxHandles, labels)
		putOptional(s, metrics.ContainerMaxObjects, u.MaxObjects, labels)
	}
}

func putOptional[T uint64 | float64](s scrape, m metrics.Metric, value *T, labels []string) {
	if value != nil {
		s.Put(m, float64(*value), labels...)
	}
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
