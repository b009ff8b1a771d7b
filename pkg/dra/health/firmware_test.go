package health_test

import (
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// reports sets the health reporters of an HCA's firmware, in error or not.
func (w *watched) reports(h rdma.HCA, failed ...bool) {
	var reporters []health.Reporter
	for i, f := range failed {
		reporters = append(reporters, health.Reporter{Name: health.Reporters()[i], Failed: f, Errors: 3, Recoveries: 2})
	}
	w.obs.Firmware = map[string][]health.Reporter{h.Name: reporters}
	w.look()
}

// TestFirmware: a health reporter that is in error for two minutes counts, until all of them are well. What the kernel
// does not tell changes nothing, and a card without reporters is well.
func TestFirmware(t *testing.T) {
	w, h := watch(t), hca(1)
	w.see(h)
	for range 3 { // recoveries that last
		w.reports(h, false, true)
		w.poll(90 * time.Second)
		w.reports(h, false, false)
		w.poll(time.Minute)
	}
	w.reports(h) // the driver of the card has none
	w.poll(time.Hour)
	test.Eq(t, 0, len(w.all), test.Sprintf("before any lasting error: %v", w.transitions()))
	w.reports(h, false, true)
	w.wait(2*time.Minute - time.Second)
	w.want(h.Name, "Healthy")
	w.wait(time.Second)
	w.want(h.Name, "Healthy firmware")
	_, message := w.View().Report(h.Name, w.now)
	test.StrContains(t, message, "devlink health reporter fw_fatal has had 3 errors and 2 recoveries",
		test.Sprint("message"))
	w.obs.Firmware = nil // no answer
	w.poll(time.Hour)
	w.want(h.Name, "Healthy firmware")

	next := watch(t) // another driver, which gets no answer at first
	past, _ := w.Past()
	next.Recall(past, next.now)
	next.see(h)
	next.poll(time.Hour)
	next.want(h.Name, "Healthy firmware")
	next.reports(h, false, false)
	next.poll(time.Minute)
	next.want(h.Name, "Healthy")

	w.reports(h, true, false)
	w.poll(10 * time.Minute)
	w.reports(h, false, false)
	w.poll(time.Minute)
	w.want(h.Name, "Healthy")
	test.SliceEqOp(t, []string{"RDMAFirmwareFailed", "RDMAFirmwareRecovered"}, reasons(w),
		test.Sprintf("transitions are %v", w.transitions()))
}

// TestFirmwareOfParts: VFs and SFs have the firmware of their card, which has the condition.
func TestFirmwareOfParts(t *testing.T) {
	w, h := watch(t), hca(1)
	h.Function = rdma.VF
	w.see(h)
	w.reports(h, true, true)
	w.poll(time.Hour)
	w.want(h.Name, "Healthy")
}

// TestLinkErrors: the errors that an interface counts of its link count above their limits, and not around a fall.
func TestLinkErrors(t *testing.T) {
	for counter, most := range map[string]uint64{health.FECUncorrectable: 120, health.PHYSymbolErrors: 3600} {
		w, h := watch(t), hca(1)
		read := func(n uint64) {
			w.obs.Readings = map[health.PortID]health.Reading{
				{Device: h.Name, Port: 1}: {Counters: map[string]uint64{counter: n}}}
			w.look()
		}
		w.see(h)
		read(1 << 40) // from before the driver started
		for hour := range uint64(48) {
			w.poll(time.Hour)
			read(1<<40 + (hour+1)*most)
		}
		w.want(h.Name, "Healthy")
		test.Eq(t, 0, len(w.all), test.Sprintf("%s: at the limit there are %v", counter, w.transitions()))
		w.see(down(h, 1))
		w.poll(time.Minute)
		w.see(h)
		read(1 << 41) // the link has lost its partner
		w.poll(10 * time.Minute)
		w.want(h.Name, "Healthy")
		read(1<<41 + most + 1)
		w.wait(5 * time.Second)
		w.want(h.Name, "Healthy port-errors")
		want := "counter " + counter + " rises by more than"
		_, message := w.View().Report(h.Name, w.now)
		test.StrContains(t, message, want, test.Sprint("message"))
		w.obs.Readings = nil // not known
		w.poll(10 * time.Hour)
		w.want(h.Name, "Healthy port-errors")
		read(1<<41 + most + 1)
		w.poll(time.Minute)
		w.want(h.Name, "Healthy")
	}
}

// TestUncabled: a port without a cable keeps its taint, and is no alert. A second port that has a cable makes it one.
func TestUncabled(t *testing.T) {
	for name, ports := range map[string][]bool{
		"no cable": {true, true}, "one cable": {true, false}, "not known": {false, false},
	} {
		w, h := watch(t), down(down(dualPort(1), 1), 2)
		w.obs.Readings = map[health.PortID]health.Reading{}
		for i, noCable := range ports {
			w.obs.Readings[health.PortID{Device: h.Name, Port: i + 1}] = health.Reading{NoCable: noCable}
		}
		w.see(h)
		w.wait(time.Minute)
		v, _ := w.View().Verdict(h.Name)
		test.Eq(t, "rdma.dev/port-down:NoSchedule ", effectsOf(w.View().Taints(raised))[h.Name],
			test.Sprintf("%s: taints", name))
		for _, tr := range w.all {
			want := name == "no cable"
			test.True(t, v.Unused == want && tr.Grave() != want,
				test.Sprintf("%s: unused is %v, and the event is a warning: %v", name, v.Unused, tr.Grave()))
		}
		told := strings.Contains(v.Message(), "port 1 is DOWN (Polling): it has no cable")
		test.Eq(t, ports[0], told, test.Sprintf("%s: message is %q", name, v.Message()))
		w.obs.Readings = nil
		w.see(dualPort(1))
		w.wait(time.Minute)
		w.want(h.Name, "Healthy")
		if v, _ := w.View().Verdict(h.Name); v.Unused {
			t.Errorf("%s: a port with a link is unused", name)
		}
	}
}
