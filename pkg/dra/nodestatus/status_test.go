package nodestatus_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/patch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// now is the time of all pages.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// empty is the page of a fixture machine on which nothing has happened. The ports of some of its HCAs are down.
func empty(t testing.TB, machine string, down ...int) *nodestatus.Status {
	t.Helper()
	sys, snap := rdmatest.Sysfs(t, machine)
	for _, i := range down {
		for j := range snap.HCAs[i].Ports {
			snap.HCAs[i].Ports[j].State, snap.HCAs[i].Ports[j].RateMbps = rdma.PortDown, 0
		}
	}
	p := &nodestatus.Status{
		Node: "node-1", Version: "dra-driver v1.2.3", Started: now.Add(-50 * time.Hour), At: now, Registered: true,
		Problems: []string{}, Topology: topology.Discover(sys, snap), HCAs: []nodestatus.HCA{}, Groups: []nodestatus.Group{},
		Claims: []nodestatus.Claim{}, Events: []nodestatus.Event{},
	}
	for _, h := range snap.HCAs {
		one := nodestatus.HCA{
			Name: h.Name, IBDev: h.IBDev, Function: string(h.Function), Protocol: string(h.Protocol),
			Model: h.Model, Firmware: h.Firmware,
			Health: "Healthy", Devices: []nodestatus.Device{{Name: h.Name}}, Claims: []string{},
		}
		if h.PCI != nil {
			one.PCI, one.NUMANode = h.PCI.Address, h.PCI.NUMANode
		}
		for _, port := range h.Ports {
			one.Ports = append(one.Ports, nodestatus.Port{Number: port.Number, State: string(port.State),
				RateMbps: port.RateMbps, Netdev: port.Netdev})
		}
		p.HCAs = append(p.HCAs, one)
	}
	return p
}

// busy is the page of a host with something of everything.
func busy(t testing.TB) *nodestatus.Status {
	t.Helper()
	p := empty(t, "hgx-h100", 1)
	var in nodestatus.Status
	patch.File(t, "testdata/busy.yaml", &in)
	p.NRI, p.Problems, p.Groups, p.Claims, p.IPAM = in.NRI, in.Problems, in.Groups, in.Claims, in.IPAM
	p.HCAs[0].Claims = []string{"team-a/ring"}
	p.HCAs[1].Health, p.HCAs[1].Fault = "Unhealthy", "mlx5_1: port 1 is DOWN (Polling): nothing answers: no cable, or the other end is off"
	p.HCAs[1].Taints = []string{"rdma.dev/port-down:NoSchedule"}
	p.HCAs[2].Health, p.HCAs[2].Devices, p.HCAs[2].Reason = "", []nodestatus.Device{}, "rule storage: publish is none"
	var log nodestatus.Log
	log.Add(now.Add(-3*time.Hour), nodestatus.Event{Reason: "Prepared", Object: "team-a/ring", Message: "UID 3f6f0b8e"})
	for i := range 3 {
		log.Add(now.Add(time.Duration(i-3)*time.Minute), nodestatus.Event{Warning: true, Reason: "NotPrepared",
			Object: "team-a/late", Message: "device mlx5_0 is in use"})
	}
	p.Events = log.Events()
	return p
}

// write returns a page in a format.
func write(t testing.TB, p *nodestatus.Status, format string) []byte {
	t.Helper()
	var out bytes.Buffer
	must.NoError(t, p.Write(&out, format))
	return out.Bytes()
}

// TestGolden: every format, of a host at work and of one without RDMA devices.
func TestGolden(t *testing.T) {
	for name, p := range map[string]*nodestatus.Status{"busy": busy(t), "none": empty(t, "none")} {
		for _, format := range nodestatus.Formats {
			golden.Bytes(t, name+"."+format, write(t, p, format))
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	test.ErrorContains(t, empty(t, "none").Write(&bytes.Buffer{}, "xml"), "[table json yaml]")
}

// hostile puts a text wherever a page takes one.
func hostile(text string) *nodestatus.Status {
	hca, p := topology.Device{}, &nodestatus.Status{}
	fill(reflect.ValueOf(&hca).Elem(), text)
	hca.Kind = topology.HCA
	fill(reflect.ValueOf(p).Elem(), text)
	p.Topology = topology.Assemble([]*topology.Device{&hca})
	return p
}

// fill sets all strings, numbers and times below a value. Lists get one member.
func fill(v reflect.Value, text string) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(now))
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Int:
		v.SetInt(2)
	case v.Kind() == reflect.Pointer && v.Type() != reflect.TypeFor[*topology.Topology]():
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), text)
		}
	}
}

// FuzzEscape: no text moves the cursor of a terminal.
func FuzzEscape(f *testing.F) {
	for _, seed := range []string{"x", "\x00\x1b[31m", "\u202e", "\xff\xfe<", "a\tb\nc"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range string(write(t, hostile(text), "table")) {
			test.True(t, (r >= ' ' || r == '\n') && r != 0x7f && r != 0x202e,
				test.Sprintf("%q: the table has the character %U", text, r))
		}
	})
}
