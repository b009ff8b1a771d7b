package policy_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// machine returns a fixture machine by name; "large" has eight PFs and 1,016 VFs.
func machine(t testing.TB, name string) *fixture.Machine {
	t.Helper()
	if name == "large" {
		m, err := large()
		must.NoError(t, err)
		return m
	}
	m, err := fixture.Load(name)
	must.NoError(t, err)
	return m
}

// functions is how many functions the machine "large" has: 1,016 VFs and their PFs.
const functions = 1024

var large = sync.OnceValues(func() (*fixture.Machine, error) { return fixture.Large(functions) })

var (
	snapshotMu sync.Mutex
	snapshots  = map[string]*rdma.Snapshot{}
)

// snapshot returns what there is on a fixture machine. It is read once: a test that
// changes it takes a copy.
func snapshot(t testing.TB, name string) *rdma.Snapshot {
	t.Helper()
	snapshotMu.Lock()
	defer snapshotMu.Unlock()
	if snapshots[name] == nil {
		snapshots[name] = rdmatest.Discover(t, machine(t, name))
		for i := range snapshots[name].HCAs {
			if h := &snapshots[name].HCAs[i]; h.Function == rdma.Virtual {
				h.Software = &rdma.Software{Index: uint32(i), Netdev: h.Identity.Netdev} // as RDMA netlink says on that host
			}
		}
	}
	return snapshots[name]
}

// machines are the names of all machines.
func machines() []string { return append(fixture.Names(), "large") }

// describe writes a result for people to compare: decisions, groups, and what is
// published, without the attributes that HCAs have by themselves.
func describe(r policy.Result) string {
	var out strings.Builder
	for _, d := range r.Decisions {
		line := fmt.Sprintf("%s rule=%s wanted=%s view=%s", d.HCA.Name, d.Rule, d.Wanted, d.Form)
		if d.Reason != "" {
			line += " because " + d.Reason
		}
		fmt.Fprintln(&out, line)
	}
	for _, g := range r.Groups {
		var names []string
		for _, h := range g.Group.Members {
			names = append(names, h.Name)
		}
		line := fmt.Sprintf("group %s published=%t members=%s", g.Group.Name, g.Published, strings.Join(names, ","))
		if g.Reason != "" {
			line += " because " + g.Reason
		}
		fmt.Fprintln(&out, line)
	}
	describeSlices(&out, r.Slices())
	return out.String()
}

func describeSlices(out *strings.Builder, published []resourceslice.Slice) {
	for i, s := range published {
		fmt.Fprintf(out, "slice %d\n", i)
		for _, set := range s.SharedCounters {
			for _, name := range slices.Sorted(maps.Keys(set.Counters)) {
				value := set.Counters[name].Value
				fmt.Fprintf(out, "  counter %s/%s = %s\n", set.Name, name, value.String())
			}
		}
		for _, d := range s.Devices {
			fmt.Fprintf(out, "  device %s\n", d.Name)
			describeDevice(out, d)
		}
	}
}

// told are the attributes that describeDevice leaves out unless a policy sets them.
var told = []resourceapi.QualifiedName{"shared", "group", "rail", "tier", "example.com/site",
	"k8s.cni.cncf.io/deviceID", "k8s.cni.cncf.io/resourceName"}

func describeDevice(out *strings.Builder, d resourceapi.Device) {
	for _, name := range told {
		if a, ok := d.Attributes[name]; ok {
			fmt.Fprintf(out, "    %s = %s\n", name, value(a))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		c := d.Capacity[name]
		fmt.Fprintf(out, "    capacity %s = %s", name, c.Value.String())
		if p := c.RequestPolicy; p != nil {
			fmt.Fprintf(out, ", default %s, from %s", p.Default.String(), p.ValidRange.Min.String())
			if p.ValidRange.Step != nil {
				fmt.Fprintf(out, " in steps of %s", p.ValidRange.Step.String())
			}
		}
		fmt.Fprintln(out)
	}
	for _, c := range d.ConsumesCounters {
		for _, name := range slices.Sorted(maps.Keys(c.Counters)) {
			v := c.Counters[name].Value
			fmt.Fprintf(out, "    takes %s of %s/%s\n", v.String(), c.CounterSet, name)
		}
	}
	for _, taint := range d.Taints {
		fmt.Fprintf(out, "    taint %s: %s\n", taint.Key, taint.Effect)
	}
}

func value(a resourceapi.DeviceAttribute) string {
	switch {
	case a.StringValue != nil:
		return strconv.Quote(*a.StringValue)
	case a.IntValue != nil:
		return strconv.FormatInt(*a.IntValue, 10)
	}
	return strconv.FormatBool(*a.BoolValue)
}
