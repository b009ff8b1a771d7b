package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/genl"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/largehost"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// kernelAnswers is a kernel with the same answers for each card. It counts the questions.
type kernelAnswers struct {
	reporters []genl.Reporter
	fec       *uint64
	noCable   bool
	software  map[string]*rdma.Software // by ibdev
	err       error
	hang      chan struct{} // the first card answers no sooner

	mu    sync.Mutex
	asked map[string]int
}

func (a *kernelAnswers) ask(of string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked == nil {
		a.asked = map[string]int{}
	}
	a.asked[of]++
	return a.err
}

func (a *kernelAnswers) Reporters(bus, device string, names ...string) ([]genl.Reporter, error) {
	for range names {
		a.ask(bus + "/" + device)
	}
	if a.hang != nil && device == "first" {
		<-a.hang
	}
	return a.reporters, a.err
}

func (a *kernelAnswers) FECUncorrectable(netdev string) (*uint64, error) { return a.fec, a.ask(netdev) }
func (a *kernelAnswers) SymbolErrors(netdev string) (*uint64, error)     { return nil, a.ask(netdev) }
func (a *kernelAnswers) NoCable(netdev string) (bool, error)             { return a.noCable, a.ask(netdev) }

func (a *kernelAnswers) Software(ibdev string) (*rdma.Software, error) {
	return a.software[ibdev], a.ask(ibdev)
}

func (a *kernelAnswers) total() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.asked {
		n += one
	}
	return n
}

// asked is a card with an Ethernet port, and what is read of it.
func asked(
	a *kernelAnswers, state rdma.PortState, files map[string]string,
) (map[string][]health.Reporter, health.Reading) {
	sys := fstest.MapFS{}
	for name, content := range files {
		sys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	h := rdma.HCA{
		Name: "pf", IBDev: "mlx5_0", Function: rdma.PF, Uverbs: &rdma.Node{}, PCI: &rdma.PCIFunction{Address: "a"},
		Ports: []rdma.Port{{Number: 1, LinkLayer: rdma.LinkEthernet, State: state, Netdev: "ens1"}},
	}
	vf := h
	vf.Name, vf.Function = "vf", rdma.VF
	id := health.PortID{Device: "pf", Port: 1}
	readings := map[health.PortID]health.Reading{id: {Counters: map[string]uint64{"symbol_error": 1}}}
	asker := asker{genl: a, sys: sys}
	firmware := asker.ask(&rdma.Snapshot{HCAs: []rdma.HCA{h, vf}}, readings)
	return firmware, readings[id]
}

// TestAsk: the kernel's answers about a card are part of its reading, and VFs are not asked about.
func TestAsk(t *testing.T) {
	const up = "class/net/ens1/carrier_up_count"
	symbols := map[string]uint64{"symbol_error": 1}
	failed := []genl.Reporter{{Name: "fw", Failed: true, Errors: 3, Recoveries: 2}}
	known := map[string][]health.Reporter{"pf": {{Name: "fw", Failed: true, Errors: 3, Recoveries: 2}}}
	none := map[string][]health.Reporter{"pf": nil}
	for _, tc := range []struct {
		name     string
		kernel   *kernelAnswers
		state    rdma.PortState
		files    map[string]string
		firmware map[string][]health.Reporter
		want     health.Reading
	}{
		{"a link that is up", &kernelAnswers{reporters: failed, fec: new(uint64(7)), noCable: true}, rdma.PortActive, nil,
			known, health.Reading{Counters: map[string]uint64{"symbol_error": 1, "fec_uncorrectable_blocks": 7}}},
		{"no cable", &kernelAnswers{noCable: true}, rdma.PortDown, map[string]string{up: "0\n"}, none,
			health.Reading{Counters: symbols, NoCable: true}},
		{"the cable was pulled", &kernelAnswers{noCable: true}, rdma.PortDown, map[string]string{up: "1\n"}, none,
			health.Reading{Counters: symbols}},
		{"whether it ever had a link is not known", &kernelAnswers{noCable: true}, rdma.PortDown, nil, none,
			health.Reading{Counters: symbols}},
		{"no answer", &kernelAnswers{err: errors.New("busy"), fec: new(uint64(7)), noCable: true, reporters: failed},
			rdma.PortActive, nil, map[string][]health.Reporter{}, health.Reading{Counters: symbols}},
	} {
		firmware, got := asked(tc.kernel, tc.state, tc.files)
		test.Eq(t, tc.want, got, test.Sprintf("%s: reading", tc.name))
		test.Eq(t, tc.firmware, firmware, test.Sprintf("%s: firmware", tc.name))
		test.Eq(t, 2, tc.kernel.asked["pci/a"], test.Sprintf("%s: devlink was asked", tc.name))
	}
}

// TestSilentCard: a card that does not answer delays no other, and is not asked again before it has answered.
func TestSilentCard(t *testing.T) { synctest.Test(t, testSilentCard) }

func testSilentCard(t *testing.T) {
	a := &kernelAnswers{hang: make(chan struct{})}
	snap := &rdma.Snapshot{}
	for _, address := range []string{"first", "second"} {
		snap.HCAs = append(snap.HCAs, rdma.HCA{
			Name: address, IBDev: address, Function: rdma.PF, Uverbs: &rdma.Node{}, PCI: &rdma.PCIFunction{Address: address}})
	}
	asker := asker{genl: a}
	want := map[string][]health.Reporter{"second": nil}
	for range 2 {
		test.Eq(t, want, asker.ask(snap, nil), test.Sprint("while a card is silent"))
	}
	got := a.asked["pci/first"]
	test.Eq(t, len(health.Reporters()), got,
		test.Sprintf("the silent card was asked %d questions, want each of %v once", got, health.Reporters()))
	close(a.hang)
	synctest.Wait()
	want["first"] = nil
	test.Eq(t, want, asker.ask(snap, nil), test.Sprint("when it has answered"))
}

// TestQuestionsOfAPoll: the number of questions is that of the cards, and VFs add none.
func TestQuestionsOfAPoll(t *testing.T) {
	counts := map[int]string{}
	for _, functions := range []int{8, 1016} {
		host, kernel := largehost.New(t, functions), &kernelAnswers{}
		n := opened(t, Config{Sys: host, Genl: kernel})
		cards := 0
		for _, h := range n.Host().Usable() {
			if h.Function == rdma.PF {
				cards++
			}
		}
		n.health.read(n.Host(), n.cfg.Health.Thresholds, &n.Moves)
		counts[functions] = fmt.Sprintf("%d questions about %d cards", kernel.total(), cards)
		t.Logf("%d functions: %s", functions, counts[functions])
	}
	test.Eq(t, counts[1016], counts[8], test.Sprintf("the questions are not the same: %v", counts))
}

// TestSoftwareMoved: a software HCA whose interface a claim has moved into its pod stays the host's, also for the next
// driver. The kernel's number of the device counts, since a pod chooses names. Without such a claim it is a pod's.
func TestSoftwareMoved(t *testing.T) {
	kernel := &kernelAnswers{software: map[string]*rdma.Software{"rxe0": {Index: 1, Netdev: "eth0"}, "rxe1": {Index: 2, Netdev: "eth1"}}}
	n := opened(t, Config{Sys: countedMachine(t, "soft"), Genl: kernel})
	is := func(n *Node, ibdev, want string) {
		t.Helper()
		i := slices.IndexFunc(n.Host().HCAs, func(h rdma.HCA) bool { return h.IBDev == ibdev })
		got := n.Host().HCAs[i].Software
		test.True(t, got != nil && got.Netdev == want,
			test.Sprintf("the host's interface of %s is %+v, want %q", ibdev, got, want))
	}
	kernel.software = map[string]*rdma.Software{"rxe0": {Index: 1}, "rxe1": {Index: 2}}
	for _, mode := range []string{v1alpha1.NetworkMacvlan, v1alpha1.NetworkMove} {
		want := map[string]string{v1alpha1.NetworkMove: "eth1"}[mode]
		device := plan.Device{Device: "soft-rxe-eth1", Network: &plan.Network{Mode: mode}}
		p := &plan.Plan{UID: "uid", Namespace: "ns", Name: "claim", Devices: []plan.Device{device}}
		must.NoError(t, n.cfg.Store.Claim(t.Context(), p))
		must.NoError(t, n.Rescan())
		is(n, "rxe0", "")
		is(n, "rxe1", want)
		if mode == v1alpha1.NetworkMove { // the next driver
			n.remember(t.Context())
			next, err := Open(n.cfg)
			must.NoError(t, err)
			nobody := func(context.Context, int, []health.Transition, []*plan.Plan) {}
			must.NoError(t, next.Start(t.Context(), Listener{Health: nobody}))
			is(next, "rxe1", want)
		}
		must.NoError(t, n.cfg.Store.Remove("uid"))
	}
}
