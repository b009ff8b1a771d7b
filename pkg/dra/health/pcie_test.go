package health_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// linked sets the narrowest PCIe link of some HCAs: HCA 0 has the first one.
func (w *watched) linked(rule health.Expected, links ...rdma.PCIeLink) {
	w.obs.Expected, w.obs.PCIe = map[string]health.Expected{}, map[string]health.PCIe{}
	var hcas []rdma.HCA
	for i, link := range links {
		h := hca(i)
		hcas = append(hcas, h)
		w.obs.Expected[h.Name] = rule
		w.obs.PCIe[h.Name] = health.PCIe{PCIeLink: health.PCIeLink{Link: link, At: "0000:3a:00.0"}}
	}
	w.see(hcas...)
}

// TestPCIeDegraded: a link below that of the rule, or below every other card of it, counts after two minutes. The same
// link everywhere is the board, and one that cannot be read is not known.
func TestPCIeDegraded(t *testing.T) {
	full, half, none := rdma.PCIeLink{MTs: 32000, Lanes: 16}, rdma.PCIeLink{MTs: 32000, Lanes: 8}, rdma.PCIeLink{}
	same := rdma.PCIeLink{MTs: 16000, Lanes: 16} // as much as half
	peers, least := health.Expected{Peers: "compute", Alike: true}, health.Expected{MinPCIe: full}
	for name, tc := range map[string]struct {
		rule  health.Expected
		links []rdma.PCIeLink
		sick  int // -1: none
	}{
		"peers":            {peers, []rdma.PCIeLink{full, full, half, full}, 2},
		"all the same":     {peers, []rdma.PCIeLink{half, same, half, same}, -1},
		"two of six":       {peers, []rdma.PCIeLink{full, half, full, half, full, full}, -1},
		"few":              {peers, []rdma.PCIeLink{full, half, full}, -1},
		"not known":        {peers, []rdma.PCIeLink{full, none, full, full}, -1},
		"policy":           {least, []rdma.PCIeLink{full, same}, 1},
		"no rule":          {health.Expected{}, []rdma.PCIeLink{full, full, full, full, half}, -1},
		"rule lacks cards": {health.Expected{Peers: "compute"}, []rdma.PCIeLink{full, full, full, half}, -1},
	} {
		w := watch(t)
		w.linked(tc.rule, tc.links...)
		w.wait(2*time.Minute - time.Second)
		test.Eq(t, 0, len(w.all), test.Sprintf("%s: too early are %v", name, w.transitions()))
		w.poll(time.Hour)
		for i := range tc.links {
			want := "Healthy"
			if i == tc.sick {
				want += " pcie-degraded"
			}
			test.Eq(t, want, w.state(hca(i).Name), test.Sprintf("%s: card %d", name, i))
		}
		if tc.sick < 0 {
			continue
		}
		_, message := w.View().Report(hca(tc.sick).Name, w.now)
		want := "the PCIe link of 0000:3a:00.0 has " + tc.links[tc.sick].String() + " (GT/s x lanes)"
		test.StrContains(t, message, want, test.Sprintf("%s: message", name))
		tc.links[tc.sick] = full
		w.linked(tc.rule, tc.links...)
		w.poll(time.Minute)
		w.want(hca(tc.sick).Name, "Healthy")
	}
}

// TestPCIeErrors: an uncorrectable error of the link counts at once, for half a day, and correctable ones by their
// rate.
func TestPCIeErrors(t *testing.T) {
	w, h := watch(t), hca(1)
	read := func(nonfatal, correctable uint64) {
		w.obs.PCIe = map[string]health.PCIe{h.Name: {Errors: map[string]uint64{
			"aer_fatal": 0, "aer_nonfatal": nonfatal, "aer_correctable": correctable}}}
		w.look()
	}
	w.see(h)
	read(3, 1000) // from before the driver started
	w.poll(time.Hour)
	read(3, 4600)
	w.poll(time.Minute)
	w.want(h.Name, "Healthy")
	read(3, 4700)
	w.wait(5 * time.Second)
	w.want(h.Name, "Healthy pcie-errors")
	w.poll(2 * time.Hour)
	w.want(h.Name, "Healthy")
	read(4, 4700)
	w.wait(5 * time.Second)
	w.want(h.Name, "Healthy pcie-errors")
	_, message := w.View().Report(h.Name, w.now)
	test.StrContains(t, message, "counter aer_nonfatal rose within 12h", test.Sprint("message"))
	w.poll(13 * time.Hour)
	w.want(h.Name, "Healthy")

	w.see() // the driver of the card is loaded again, and its link goes down meanwhile
	w.wait(20 * time.Second)
	w.see(h)
	w.poll(30 * time.Second)
	read(95, 19000)
	w.poll(30 * time.Second)
	w.want(h.Name, "Healthy")
	w.poll(time.Hour)
	read(96, 19000)
	w.poll(30 * time.Second)
	w.want(h.Name, "Healthy pcie-errors")
}

// TestQuietWeek: all modelled machines, under a policy that compares all of their cards, show nothing new in a week:
// with unused ports, cards of two rates, VFs, clouds and counters that rise as they do.
func TestQuietWeek(t *testing.T) {
	for _, name := range fixture.Names() {
		w, snap := watch(t), rdmatest.Snapshot(t, name)
		w.obs.Snapshot, w.obs.Expected = snap, map[string]health.Expected{}
		w.obs.Readings, w.obs.PCIe = map[health.PortID]health.Reading{}, map[string]health.PCIe{}
		w.obs.Firmware = map[string][]health.Reporter{}
		for _, h := range snap.Usable() {
			w.obs.Expected[h.Name] = health.Expected{Peers: fmt.Sprint(h.Protocol, h.Model, firstRate(h)), Alike: true}
			w.obs.PCIe[h.Name] = health.PCIe{Errors: map[string]uint64{"aer_fatal": 0, "aer_nonfatal": 0, "aer_correctable": 7}}
			w.obs.Firmware[h.Name] = []health.Reporter{{Name: "fw"}, {Name: "fw_fatal"}}
		}
		w.look()
		w.wait(time.Minute)
		first := len(w.all)
		for hour := range uint64(7 * 24) {
			w.now = w.now.Add(time.Hour)
			for _, h := range snap.Usable() {
				for p := range h.OwnPorts() {
					falls := hour / 72 // one in three days
					w.obs.Readings[health.PortID{Device: h.Name, Port: p.Number}] = health.Reading{
						Falls: &falls, Counters: map[string]uint64{"symbol_error": hour, "link_downed": falls,
							health.FECUncorrectable: 39 * hour, health.PHYSymbolErrors: 360 * hour},
					}
				}
				// Once a day a firmware is in error for a moment, and its driver recovers it.
				w.obs.Firmware[h.Name] = []health.Reporter{{Name: "fw", Failed: hour%24 == 7}, {Name: "fw_fatal"}}
			}
			w.look()
			if hour%24 == 7 {
				w.wait(time.Minute)
				for name := range w.obs.Firmware {
					w.obs.Firmware[name] = []health.Reporter{{Name: "fw", Errors: 1, Recoveries: 1}, {Name: "fw_fatal"}}
				}
				w.look()
			}
			w.wait(time.Minute)
		}
		test.LessEq(t, first, len(w.all), test.Sprintf("%s: in a week there are %v", name, w.transitions()[first:]))
		for _, tr := range w.all {
			switch tr.Condition {
			case health.PortFlapping, health.PortSlow, health.PortErrors, health.PCIeDegraded, health.PCIeErrors,
				health.Firmware:
				t.Errorf("%s: %s of %s: %s", name, tr.Reason(), tr.Device, tr.Message)
			}
		}
	}
}

// firstRate is the rate of the first port. A site may separate compute and storage by it.
func firstRate(h *rdma.HCA) int {
	if p := h.Port1(); p != nil {
		return p.RateMbps
	}
	return 0
}
