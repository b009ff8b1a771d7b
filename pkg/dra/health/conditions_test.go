package health_test

import (
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestNodesAndNames: no verbs node, no GUID, no readable port.
func TestNodesAndNames(t *testing.T) {
	w := watch(t)
	noUverbs, free, noGUID, blind, portless := hca(1), hca(2), hca(3), hca(4), hca(5)
	noUverbs.Uverbs, free.Uverbs, noGUID.NodeGUID, portless.Ports = nil, nil, 0, nil
	blind.Ports[0].State, blind.Ports[0].PhysState = "", ""
	efa := hca(6)
	efa.NodeGUID, efa.Protocol = 0, rdma.ProtocolEFA
	w.obs.Held = []string{noUverbs.Name}
	w.see(noUverbs, free, noGUID, blind, portless, efa)
	w.wait(5 * time.Second)
	for device, want := range map[string]string{
		noUverbs.Name: "Unhealthy no-uverbs", free.Name: "none", noGUID.Name: "Unhealthy no-guid",
		blind.Name: "Unknown unmonitored", portless.Name: "Unknown unmonitored", efa.Name: "Healthy",
	} {
		w.want(device, want)
	}
}

// TestUnreadable: a port that cannot be read stays what it was.
func TestUnreadable(t *testing.T) {
	w, h := watch(t), hca(1)
	blind := hca(1)
	blind.Ports[0].State = ""
	w.see(down(h, 1))
	w.wait(time.Minute)
	w.see(blind)
	w.wait(time.Hour)
	w.want(h.Name, "Unhealthy port-down unmonitored")
	w.see(h)
	w.wait(30 * time.Second)
	w.want(h.Name, "Healthy")
}

// TestAddressInPod: the GIDs of an HCA in a pod are made of the addresses in there. Its interface may be the host's.
func TestAddressInPod(t *testing.T) {
	w, h := watch(t), hca(1)
	h.Protocol, h.Ports[0].Netdev, h.Ports[0].LinkLayer = rdma.ProtocolRoCE, "ens1f0", rdma.LinkEthernet
	w.obs.InPod = map[string]bool{h.Name: true}
	w.obs.Readings = map[health.PortID]health.Reading{
		{Device: h.Name, Port: 1}: {Falls: new(uint64), RoutableGID: new(bool)},
	}
	w.see(h)
	w.wait(time.Hour)
	w.want(h.Name, "Healthy")
}

// TestReadings: GIDs and counters, where they were read.
func TestReadings(t *testing.T) {
	w, h := watch(t), hca(1)
	h.Protocol, h.Ports[0].Netdev = rdma.ProtocolRoCE, "ens1f0"
	none, one := false, true
	read := func(routable *bool, symbols uint64) {
		w.obs.Readings = map[health.PortID]health.Reading{
			{Device: h.Name, Port: 1}: {
				RoutableGID: routable, Counters: map[string]uint64{"symbol_error": symbols, "port_rcv_data": 1 << 60},
			},
		}
		w.see(h)
	}
	read(&none, 65000)
	w.wait(5 * time.Second)
	w.want(h.Name, "Healthy no-address")
	w.now = w.now.Add(time.Hour)
	read(&one, 65120)
	w.wait(30 * time.Second)
	w.want(h.Name, "Healthy")
	read(&one, 100) // cleared, and 100 since
	w.want(h.Name, "Healthy")
	read(&one, 135)
	w.wait(5 * time.Second)
	w.want(h.Name, "Healthy port-errors")
	_, message := w.View().Report(h.Name, w.now)
	test.StrContains(t, message, "counter symbol_error rises by more than 120 in 1h: a bad cable",
		test.Sprint("message"))
	w.now = w.now.Add(time.Hour)
	read(&one, 135)
	w.wait(30 * time.Second)
	w.want(h.Name, "Healthy")
}

// TestResume: a driver that restarts goes on where the last one was.
func TestResume(t *testing.T) {
	up, bad, gone := hca(1), hca(2), hca(3)
	before := watch(t)
	before.see(down(up, 1), down(bad, 1))
	before.wait(time.Minute)
	past, _ := before.Past()
	past[gone.Name] = health.Past{Since: map[health.Condition]time.Time{
		health.DeviceGone: before.now, "of-a-newer-driver": before.now,
	}}
	w := watch(t)
	w.Recall(past, w.now)
	w.see(up, down(bad, 1))
	w.want(up.Name, "Unhealthy port-down")
	w.want(bad.Name, "Unhealthy port-down")
	w.wait(30 * time.Second)
	w.want(up.Name, "Healthy")
	w.want(bad.Name, "Unhealthy port-down")
	w.want(gone.Name, "none")
	test.Eq(t, []string{"30s mlx5_1 RDMAPortActive"}, w.transitions(), test.Sprint("transitions"))
}

// TestStale: what nobody looks at is unknown.
func TestStale(t *testing.T) {
	w, h := watch(t), hca(1)
	status, _ := w.View().Report(h.Name, w.now)
	test.Eq(t, health.Unknown, status, test.Sprint("before the first look the status"))
	w.see(h)
	status, message := w.View().Report(h.Name, w.now.Add(3*time.Minute))
	test.True(t, status == health.Healthy && message == "", test.Sprintf("status is %s, %q", status, message))
	status, message = w.View().Report(h.Name, w.now.Add(3*time.Minute+1))
	test.True(t, status == health.Unknown && strings.Contains(message, "not been read"),
		test.Sprintf("status is %s, %q", status, message))
	status, _ = w.View().Report("pci-none", w.now)
	test.Eq(t, health.Unknown, status, test.Sprint("status of no device"))
}

// TestWords: each state of a port says what to do.
func TestWords(t *testing.T) {
	for want, port := range map[string]rdma.Port{
		"no subnet manager has configured it": {State: rdma.PortInit, PhysState: "LinkUp", LinkLayer: rdma.LinkInfiniBand},
		"is INIT (LinkUp)":                    {State: rdma.PortInit, PhysState: "LinkUp", LinkLayer: rdma.LinkEthernet},
		"not activated it":                    {State: rdma.PortArmed, PhysState: "LinkUp"},
		"the link failed a moment ago":        {State: rdma.PortActiveDefer, PhysState: "LinkUp"},
		"interface ens1 is down or has no carrier: ip link set ens1 up": {State: rdma.PortDown, PhysState: "Disabled",
			LinkLayer: rdma.LinkEthernet, Netdev: "ens1"},
		"the link is being negotiated": {State: rdma.PortDown,
			PhysState: "PortConfigurationTraining"},
		"port 1 is DOWN": {State: rdma.PortDown},
	} {
		w, h := watch(t), hca(1)
		port.Number = 1
		h.Ports = []rdma.Port{port}
		w.see(h)
		_, message := w.View().Report(h.Name, w.now)
		test.StrContains(t, message, want, test.Sprintf("%+v: message", port))
	}
}
