package leaf_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/leaf"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

const vf = "pci-0000-18-00-1"

// host has a PF with a VF.
func host() *rdma.Snapshot {
	ports := []rdma.Port{{Number: 1}}
	pf, ofVF := rdma.PCIFunction{Address: "0000:18:00.0"}, rdma.PCIFunction{Address: "0000:18:00.1"}
	return &rdma.Snapshot{HCAs: []rdma.HCA{
		{Name: device, IBDev: "mlx5_0", Function: rdma.PF, PCI: &pf, Ports: ports},
		{Name: vf, IBDev: "mlx5_1", Function: rdma.VF, PF: pf.Address, PCI: &ofVF, Ports: ports},
	}}
}

// history is a model with a host, and a time.
type history struct {
	*testing.T
	*leaf.Model
	now  time.Time
	snap *rdma.Snapshot
	held []string
}

func newHistory(t *testing.T) *history {
	return &history{t, leaf.New(), noon, host(), nil}
}

// sees takes a reading of the PF's port after a time.
func (h *history) sees(after time.Duration, r leaf.Reading) {
	h.now = h.now.Add(after)
	if r.Link.Leaf != "" {
		r.Source = leaf.Networkd
	}
	h.Observe(map[health.PortID]leaf.Reading{{Device: device, Port: 1}: r}, h.held, h.now)
}

// want compares the leaves of PF and VF.
func (h *history) want(when, pf, ofVF string) *leaf.View {
	h.Helper()
	v := h.View(h.snap)
	if got := v.First(device).Leaf; got != pf {
		h.Errorf("%s: the PF has leaf %q, want %q", when, got, pf)
	}
	if got := v.First(vf).Leaf; got != ofVF {
		h.Errorf("%s: the VF has leaf %q, want %q", when, got, ofVF)
	}
	return v
}

func to(name string) leaf.Reading { return leaf.Reading{Link: leaf.Link{Leaf: name, Port: "Eth1"}} }

var (
	nothing = leaf.Reading{Why: "networkd: nobody announces itself on eth0"}
	failed  = leaf.Reading{Why: "networkd: not there", Failed: true}
)

// The first leaf counts at once. Another one, and none, count when the last one was not seen for 10 minutes.
func TestLinger(t *testing.T) {
	h := newHistory(t)
	h.sees(0, nothing)
	h.want("at boot", "", "")
	h.sees(time.Minute, to("leaf-1"))
	h.want("at first", "leaf-1", "leaf-1")
	h.sees(5*time.Minute, to("leaf-2"))
	v := h.want("at once", "leaf-1", "leaf-1")
	const other = "leaf-2 port Eth1 is seen instead of leaf-1 port Eth1, which was seen last at Nov 26 12:01 UTC and " +
		"counts until Nov 26 12:11 UTC"
	test.StrContains(t, v.First(vf).Why, other, test.Sprint("the reason"))
	h.sees(5*time.Minute, to("leaf-1"))
	h.sees(5*time.Minute, to("leaf-2"))
	h.sees(4*time.Minute, to("leaf-2"))
	h.want("after 9 minutes", "leaf-1", "leaf-1")
	h.sees(time.Minute, to("leaf-2"))
	v = h.want("after 10 minutes", "leaf-2", "leaf-2")
	s := v.Port(device, 1)
	test.True(t, s.Since == h.now && s.Source == leaf.Networkd && s.Why == "", test.Sprintf("the state is %+v", s))
	h.sees(5*time.Minute, nothing)
	h.want("nothing for a moment", "leaf-2", "leaf-2")
	h.sees(5*time.Minute, nothing)
	h.want("nothing for 10 minutes", "", "")
	h.sees(time.Minute, to("leaf-1"))
	h.want("again", "leaf-1", "leaf-1")
}

// A source that cannot be read changes nothing for an hour.
func TestFailed(t *testing.T) {
	h := newHistory(t)
	h.sees(0, failed)
	test.Eq(t, failed.Why, h.want("at first", "", "").First(device).Why, test.Sprint("the reason"))
	h.sees(time.Minute, to("leaf-1"))
	h.want("after a failure", "leaf-1", "leaf-1")
	h.sees(time.Hour-1, failed)
	h.want("after an hour of failures", "leaf-1", "leaf-1")
	h.sees(time.Minute, failed)
	test.Eq(t, failed.Why, h.want("after more", "", "").First(device).Why, test.Sprint("the reason"))
}

// An HCA whose interface is in a pod, where nobody sees it, keeps its leaf: also over a restart of the driver and while
// it is missing. It may get its first one, and another one.
func TestHeld(t *testing.T) {
	h := newHistory(t)
	h.held = []string{device}
	h.sees(0, nothing)
	h.want("without a leaf", "", "")
	h.sees(0, to("leaf-1"))
	h.want("with the first", "leaf-1", "leaf-1")
	h.sees(24*time.Hour, nothing)
	v := h.want("while it is in a pod", "leaf-1", "leaf-1")
	test.StrContains(t, v.First(vf).Why, "counts while a claim holds the HCA", test.Sprint("the reason"))
	h.restart()
	h.want("after a restart", "leaf-1", "leaf-1")
	h.sees(24*time.Hour, nothing)
	h.want("in a pod, after a restart", "leaf-1", "leaf-1")
	h.Observe(nil, h.held, h.now)
	h.want("when it is not among the readings", "leaf-1", "leaf-1")
	h.sees(time.Minute, to("leaf-2"))
	h.want("when another is seen", "leaf-2", "leaf-2")
	h.held = nil
	h.sees(10*time.Minute, nothing)
	h.want("after the claim", "", "")
}

// restart replaces the model by one that recalls its past, by way of JSON.
func (h *history) restart() {
	h.Helper()
	past, changed := h.Past()
	data, err := json.Marshal(past)
	if err != nil || !changed {
		h.Fatal(changed, err)
	}
	if _, again := h.Past(); again {
		h.Error("an unchanged past is kept again")
	}
	past = nil
	if err := json.Unmarshal(data, &past); err != nil {
		h.Fatal(err)
	}
	h.Model = leaf.New()
	h.Recall(append(past, leaf.Past{Device: device, Port: 7, Leaf: "\x1b"}), h.now)
}

// A view is the same while links and plans are, and a nil view has none.
func TestSame(t *testing.T) {
	h := newHistory(t)
	h.sees(0, to("leaf-1"))
	before := h.View(h.snap)
	h.sees(time.Minute, to("leaf-1"))
	test.True(t, before.Same(h.View(h.snap)), test.Sprint("the same links are another view"))
	planned := to("leaf-1")
	planned.Planned.Leaf = "leaf-2"
	h.sees(time.Minute, planned)
	test.False(t, before.Same(h.View(h.snap)), test.Sprint("another plan is the same view"))
	var none *leaf.View
	test.True(t, !before.Same(none) && none.Same(nil), test.Sprint("a nil view is the same as one with links"))
	test.True(t, none.First(device).Leaf == "" && none.Port(device, 1).Leaf == "" && none.Leaves() == nil,
		test.Sprint("a nil view has links"))
	got := before.Leaves()
	test.True(t, len(got) == 2 && got[device] == "leaf-1", test.Sprintf("the leaves are %v", got))
}
