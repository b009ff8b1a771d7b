package resources_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// attributeRow is a row of the table in docs/attributes.md: name, type, example,
// source, and when it is absent.
var attributeRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([a-z]+) \\| `([^`]+)` \\| .* \\| (.*) \\|$")

// TestAttributesAreDocumented compares the table with what the fixture machines
// publish: names, types, an example that exists, and "never" absent.
func TestAttributesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/attributes.md")
	must.NoError(t, err)
	published := publishedAttributes(t)
	documented := map[string]string{}
	for _, row := range attributeRow.FindAllStringSubmatch(string(doc), -1) {
		name, kind, example, absent := row[1], row[2], row[3], row[4]
		documented[name] = kind
		test.True(t, published[name].values[example],
			test.Sprintf("no fixture machine has %s = %s, the example of docs/attributes.md", name, example))
		n := published[name].absent
		test.True(t, absent != "never" || n == 0,
			test.Sprintf("docs/attributes.md says that %s is never absent; devices of machines that lack it: %d",
				name, n))
	}
	got := map[string]string{}
	for name, p := range published {
		got[name] = p.kind
	}
	test.Eq(t, documented, got, test.Sprint("attributes and types (-docs/attributes.md +published)"))
}

type publishedAttribute struct {
	kind   string
	values map[string]bool
	absent int // number of devices without it
}

// publishedAttributes collects the attributes of all fixture machines.
func publishedAttributes(t *testing.T) map[string]publishedAttribute {
	var devices []resourceapi.Device
	for _, machine := range fixture.Names() {
		for _, s := range exclusive(rdmatest.Snapshot(t, machine)) {
			devices = append(devices, s.Devices...)
		}
	}
	all := map[string]publishedAttribute{}
	for _, d := range devices {
		for name, a := range d.Attributes {
			kind, value := typeAndValue(a)
			p, ok := all[string(name)]
			if !ok {
				p = publishedAttribute{kind: kind, values: map[string]bool{}, absent: len(devices)}
			}
			test.Eq(t, kind, p.kind, test.Sprint(name))
			p.values[value] = true
			p.absent--
			all[string(name)] = p
		}
	}
	return all
}

// TestStandardAttributes compares the standard attributes with those that the
// Kubernetes library makes, which other drivers use: equal, or the library has
// none because it does not know the kind of address.
func TestStandardAttributes(t *testing.T) {
	for _, machine := range fixture.Names() {
		m, err := fixture.Load(machine)
		must.NoError(t, err)
		sys := deviceattribute.WithFS(m.FS(t))
		snap := rdmatest.Discover(t, m)
		for _, h := range snap.Usable() {
			if h.PCI == nil {
				continue
			}
			got, where := resources.Attributes(h, snap.NetnsMode), h.DataFunction().Address // pciBusID alone is the PF's
			root, errRoot := deviceattribute.GetPCIeRootAttributeByPCIBusID(where, sys)
			numa, errNUMA := deviceattribute.GetNUMANodeAttributeByPCIBusID(where, deviceattribute.ScalarAttribute, sys)
			bus, errBus := deviceattribute.GetPCIBusIDAttribute(h.PCI.Address)
			if h.Function == rdma.SF || h.Function == rdma.Virtual {
				errBus = os.ErrNotExist
			}
			for _, want := range []struct {
				deviceattribute.DeviceAttribute
				err error
			}{{root, errRoot}, {numa, errNUMA}, {bus, errBus}} {
				diff := cmp.Diff(want.Value, got[want.Name])
				test.True(t, want.err != nil || diff == "",
					test.Sprintf("%s, %s: %s (-library +ours):\n%s", machine, h.Name, want.Name, diff))
			}
		}
	}
}

// A software HCA has no attribute that would send a claim to a PCI function.
func TestSoftwareHCAsHaveNoPlace(t *testing.T) {
	snap := rdmatest.Snapshot(t, "soft")
	for _, h := range snap.Usable() {
		names := slices.Collect(maps.Keys(resources.Attributes(h, snap.NetnsMode)))
		for _, n := range names {
			domain, _ := splitName(n)
			test.Eq(t, "", domain, test.Sprintf("%s has %s", h.Name, n))
		}
	}
}
