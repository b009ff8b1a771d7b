package inspect_test

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/bundle"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/fabric"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/traffic"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fabrictest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// modelled is the cluster of the picture in README.
func modelled(t testing.TB) *fabric.Source {
	f := fleet.Fabric(t)
	c := cluster(f)
	c.UserPods, c.Now = f.Pods, time.Date(2026, 11, 1, 9, 30, 0, 0, time.UTC)
	s := &fabric.Source{
		Cluster: c, Version: "0.1.0", Search: time.Hour, Tests: map[string]*traffic.Record{}, Drawn: []string{"gpu-12"},
	}
	report := traffic.Report{Ended: c.Now.Add(-26 * time.Hour)}
	for _, h := range c.View().HCAs(model.NodeChoice{}) {
		v := traffic.Verdict{HCA: h.HCA, State: traffic.Good, Alone: 389, Together: 386}
		switch h.Node + " " + h.Rail {
		case "gpu-10 1":
			v.State, v.Alone, v.Together, v.Least = traffic.Slow, 312, 290, 330
			v.SlowWith = []string{"gpu-09/mlx5_1", "gpu-11/mlx5_1"}
		case "gpu-12 1":
			v.State, v.Alone, v.Together = traffic.NotMeasured, 0, 0
		}
		report.HCAs = append(report.HCAs, v)
	}
	for _, r := range report.Records(nil, "0.1.0") {
		s.Tests[r.Node] = &r
	}
	return s
}

func same(s string) string { return s }

func written(t testing.TB, s *fabric.Source, hide func(string) string) string {
	t.Helper()
	p, err := fabric.New(t.Context(), s)
	must.NoError(t, err)
	var out bytes.Buffer
	must.NoError(t, p.WriteHTML(&out, hide))
	return out.String()
}

var cellOf = regexp.MustCompile(`<i class="([^"]+)" data-hca="([^"]+)"[^>]*>([^<]+)</i>`)

// cells returns the classes and signs of HCAs.
func cells(t testing.TB, page string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range cellOf.FindAllStringSubmatch(page, -1) {
		test.MapNotContainsKey(t, out, m[2], test.Sprint("an HCA is in the page twice"))
		out[m[2]] = m[1] + " " + m[3]
	}
	return out
}

// published returns the names of all HCAs in slices, whatever package model says of their pools.
func published(c *model.Cluster) map[string]bool {
	out := map[string]bool{}
	for _, s := range c.Slices {
		for i := range s.Spec.Devices {
			if s.Spec.Driver == "rdma.dev" {
				out[s.Spec.Pool.Name+"/"+model.HCAOf(s.Spec.Devices[i].Name)] = true
			}
		}
	}
	return out
}

// TestReport: the page of a cluster with trouble of each kind has each HCA once, with its state and who holds it.
func TestReport(t *testing.T) {
	s := modelled(t)
	page := written(t, s, same)
	golden.Bytes(t, "report.html", []byte(page))
	got := cells(t, page)
	for name := range published(s.Cluster) {
		test.MapContainsKey(t, got, name)
	}
	must.Eq(t, len(published(s.Cluster)), len(got))
	kernel := map[string]string{}
	for _, h := range append(s.Cluster.View().HCAs(model.NodeChoice{}), s.Cluster.View().Incomplete()...) {
		kernel[h.Node+" "+h.Rail] = got[h.Node+"/"+h.Name]
	}
	for where, want := range map[string]string{
		"gpu-01 0": "held j0 1", "gpu-03 5": "tainted !1", "gpu-08 2": "tainted !", "gpu-10 1": "held j1 doubt 2",
		"gpu-08 3": "free ·", "gpu-12 1": "free ·", "gpu-12 4": "degraded ~", "gpu-13 6": "miswired ≠",
		"gpu-14 0": "drained D", "gpu-15 0": "notseen ?",
	} {
		test.Eq(t, want, kernel[where], test.Sprint(where))
	}
	for _, want := range []string{
		"rdma.dev/port-down (NoSchedule) since Nov 1 06:30 UTC", "riser swap, ticket 4711", "driver NotReady",
		"slow: alone 312Gb/s, with all rails 290Gb/s, Oct 31", "default/jobset/llm-70b", "leaf-su2-r7", "<svg",
		"<b>default/jobset/llm-405b</b> <span class=\"dim\">3 pods</span>",
	} {
		test.StrContains(t, page, want)
	}
	test.Eq(t, health.Miswired.Key(), "rdma.dev/miswired", test.Sprint("the key that the page knows"))
}

// TestReportInBrowser: whoever opens the page sees each HCA of the API server once, and the page asks for nothing else.
func TestReportInBrowser(t *testing.T) {
	needs.Proof(t, "a browser")
	s := modelled(t)
	fabrictest.Check(t, written(t, s, same), slices.Collect(maps.Keys(published(s.Cluster))))
}

// TestReportMixed: VFs, shares, groups and devices of both forms are in the page once, too.
func TestReportMixed(t *testing.T) {
	c := mixedCluster(t)
	page := written(t, &fabric.Source{Cluster: c}, same)
	must.Eq(t, len(published(c)), len(cells(t, page)))
	test.StrContains(t, page, "room for more")
	test.StrContains(t, page, " part")
	of := func(node string) (out []*resourceapi.ResourceSliceSpec) {
		for i := range c.Slices {
			if spec := &c.Slices[i].Spec; spec.Pool.Name == node {
				out = append(out, spec)
			}
		}
		return out
	}
	for _, spec := range of("node2") {
		for i := range spec.Devices {
			spec.Devices[i].Taints = []resourceapi.DeviceTaint{{Key: "a", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}
	}
	test.StrNotContains(t, written(t, &fabric.Source{Cluster: c}, same), "room for more")
	for _, spec := range of("node2") { // whoever may write slices can leave the node out
		spec.NodeName, spec.AllNodes = nil, new(true)
	}
	for _, spec := range of("node3") { // or name it in each device
		spec.NodeName, spec.PerDeviceNodeSelection = nil, new(true)
		for i := range spec.Devices {
			spec.Devices[i].NodeName = new("elsewhere")
		}
	}
	c.Unread = model.UnreadKinds{{Kind: model.Pods, Why: "pods is forbidden"}}
	must.Eq(t, len(published(c)), len(cells(t, written(t, &fabric.Source{Cluster: c}, same))))
	test.Eq(t, "", driverNote(t, c, "(no node)"))
	test.Eq(t, "driver Unknown", driverNote(t, c, "elsewhere"))
	empty := written(t, &fabric.Source{Cluster: &model.Cluster{}}, same)
	test.StrContains(t, empty, "No node runs the driver")
}

// driverNote is what a page says of the driver of a node.
func driverNote(t *testing.T, c *model.Cluster, node string) string {
	t.Helper()
	p, err := fabric.New(t.Context(), &fabric.Source{Cluster: c})
	must.NoError(t, err)
	for _, g := range p.Groups {
		for _, r := range g.Rows {
			if r.Name != node {
				continue
			}
			if notes := r.Notes(); len(notes) > 0 && strings.HasPrefix(notes[0].HCAs, "driver") {
				return notes[0].HCAs
			}
			return ""
		}
	}
	return "no such node"
}

// railed is the slice of a node with an HCA on each of some rails, connected to these leaf switches.
func railed(node string, leaves ...string) resourceapi.ResourceSlice {
	var s resourceapi.ResourceSlice
	s.Spec.Driver, s.Spec.NodeName = rdma.Domain, &node
	s.Spec.Pool = resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1}
	for i, leaf := range leaves {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprintf("pci-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				rdma.AttributeRail: {IntValue: new(int64(i))}, rdma.AttributeLeafSwitch: {StringValue: &leaf},
			},
		})
	}
	return s
}

// TestReportBounds: whoever may write slices may choose any names of leaf switches, and any number of rails.
func TestReportBounds(t *testing.T) {
	c := &model.Cluster{Slices: []resourceapi.ResourceSlice{railed("a", "a"), railed("b", "z\ny")}}
	must.MapLen(t, 2, cells(t, written(t, &fabric.Source{Cluster: c}, same)))
	c = &model.Cluster{Slices: []resourceapi.ResourceSlice{railed("a", make([]string, 100)...)}}
	p, err := fabric.New(t.Context(), &fabric.Source{Cluster: c})
	must.NoError(t, err)
	must.SliceLen(t, 64, p.Columns)
	test.Eq(t, fabric.Column{Rail: "others", Width: 37}, p.Columns[63])
	test.Eq(t, "62", p.Columns[62].Rail)
	test.SliceLen(t, 100, p.Groups[0].Rows[0].HCAs())
}

// TestReportFolded: a node where the driver has found no HCA is well, and its group stays folded.
func TestReportFolded(t *testing.T) {
	n := lists.Node{Driver: &lists.DriverPod{Ready: true}, Published: new(false)}
	test.True(t, (&fabric.Group{Rows: []*fabric.Row{{Node: n}}}).Bad())
	n.NoHCA = true
	test.False(t, (&fabric.Group{Rows: []*fabric.Row{{Node: n}}}).Bad())
}

// TestReportWhole: a page that cannot be made is none, and one that is written twice is the same.
func TestReportWhole(t *testing.T) {
	p, err := fabric.New(t.Context(), modelled(t))
	must.NoError(t, err)
	var out, first, second bytes.Buffer
	test.Error(t, p.WriteHTML(&out, func(string) string { panic("of a test") }))
	test.Eq(t, 0, out.Len())
	must.NoError(t, p.WriteHTML(&first, func(s string) string { return s + "'" }))
	must.NoError(t, p.WriteHTML(&second, func(s string) string { return s + "'" }))
	must.Eq(t, first.String(), second.String())
}

// TestReportHolders: a pod that waits for a claim of others does not hold it. One for which it is reserved does.
func TestReportHolders(t *testing.T) {
	s := modelled(t)
	late := fleet.Pod("serve-0")
	late.Name, late.UID = "zz-late", "zz-late"
	s.Cluster.UserPods = append(s.Cluster.UserPods, late)
	test.StrNotContains(t, strings.Join(jobNames(t, s), " "), "zz-late")
	claim := slices.IndexFunc(s.Cluster.Claims, func(c resourceapi.ResourceClaim) bool { return c.Name == "serve-0" })
	users := &s.Cluster.Claims[claim].Status.ReservedFor
	*users = append(*users, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: late.Name, UID: late.UID})
	test.SliceContainsSubset(t, jobNames(t, s), []string{"default/zz-late 2", "default/replicaset/serve 6"})
	test.StrContains(t, written(t, s, same), ">*</i>")
}

// jobNames are the jobs of a page, with their numbers of HCAs.
func jobNames(t *testing.T, s *fabric.Source) (out []string) {
	t.Helper()
	p, err := fabric.New(t.Context(), s)
	must.NoError(t, err)
	for _, j := range p.Jobs {
		out = append(out, fmt.Sprint(j.Name, " ", j.HCAs))
	}
	return out
}

// TestReportIncomplete: of a pool with missing slices, the page says who holds its HCAs and how they are tainted.
func TestReportIncomplete(t *testing.T) {
	s := modelled(t)
	for i := range s.Cluster.Slices {
		if pool := &s.Cluster.Slices[i].Spec.Pool; pool.Name == "gpu-01" || pool.Name == "gpu-14" {
			pool.ResourceSliceCount++
		}
	}
	s.Drawn = []string{"gpu-14"}
	test.SliceContains(t, jobNames(t, s), "default/jobset/llm-70b 48")
	page := written(t, s, same)
	test.StrContains(t, page, "notseen\" data-hca=\"gpu-01/")
	test.StrContains(t, page, "06:30 UTC; its pool lacks ResourceSlices", test.Sprint("the drain of the node"))
	test.StrContains(t, page, "no PCIe tree of node gpu-14: ")
}

// TestReportSearchOver: once the time to search is over, the page counts the pods that it does not explain. The time may
// end in the midst of a search.
func TestReportSearchOver(t *testing.T) {
	f := fleet.Mixed(t)
	f.Pending("shares", claim(want("share", "shared.hca.rdma.dev")))
	c := cluster(f)
	c.UserPods = []corev1.Pod{fleet.Pod("shares")}
	test.StrContains(t, written(t, &fabric.Source{Cluster: c, Search: time.Hour}, same), "<b>default/trainer</b>")
	test.StrContains(t, written(t, &fabric.Source{Cluster: c, Search: time.Nanosecond}, same), "1 pod not explained here")
	for left, search := 1, time.Microsecond; left > 0; search += search / 8 {
		p, err := fabric.New(t.Context(), &fabric.Source{Cluster: c, Search: search})
		must.NoError(t, err, must.Sprintf("with %v to search", search))
		left = p.Unexplained
	}
}

// external are ways in which a page can ask the network, run something or leave its element.
var external = regexp.MustCompile(`(?i)<(script|link|img|iframe|object|embed|form|base|a|x)\b|\bon\w+=|` +
	`url\(|@import|javascript:|(src|href|action)=`)

// element is one that a hostile text makes, or an attribute.
var element = regexp.MustCompile(`<(script|x)\b|<[^>"]*("[^"]*"[^>"]*)*(url\(|style="[^"]*http)`)

// TestReportHostile: no text of others becomes an element, an attribute or a style, or asks the network.
func TestReportHostile(t *testing.T) {
	test.Eq(t, "", external.FindString(written(t, modelled(t), same)))
	for _, hostile := range []string{
		`"><script>alert(1)</script>`, `</style><x onload=y>`, `';background:url(http://x)}`, `</title></pre><x>`,
		`javascript:alert(1)`, "\x1b]0;x\a\u202e<x>",
	} {
		s := modelled(t)
		forge(reflect.ValueOf(s).Elem(), "", func(field, value string) string {
			if slices.Contains([]string{"Name", "Namespace", "Message", "Reason", "StringValue", "Key", "Value"}, field) &&
				value != "" && !strings.HasPrefix(value, "rdma.dev/drain") {
				return value + hostile
			}
			return value
		})
		s.Cluster.Unread = model.UnreadKinds{{Kind: model.NodeEvents, Why: hostile}}
		s.Missing, s.Version = []string{hostile}, hostile
		page := written(t, s, same)
		if at := element.FindStringIndex(page); at != nil {
			t.Errorf("%q is in the page: %s", hostile, page[max(0, at[0]-80):min(len(page), at[1]+40)])
		}
		test.StrNotContains(t, page, "\u202e")
		test.Eq(t, 2, strings.Count(page, "</style>"), test.Sprint("style sheets: that of the page, and that of the tree"))
	}
}

// TestReportRedacted: nothing that identifies is left, wherever it stands.
func TestReportRedacted(t *testing.T) {
	s := modelled(t)
	c := s.Cluster
	for i := range c.Slices {
		spec := &c.Slices[i].Spec
		if spec.Driver != rdma.Domain || spec.Pool.Name != "gpu-12" {
			continue
		}
		one, other := spec.Devices[1].Attributes, spec.Devices[2].Attributes
		one[rdma.AttributeNetdev] = resourceapi.DeviceAttribute{StringValue: new("enxa088c2251000")}
		one[rdma.AttributeLeafSwitch] = resourceapi.DeviceAttribute{StringValue: new("_Ostblatt\u00e4")}
		other[rdma.AttributeLeafSwitch] = resourceapi.DeviceAttribute{StringValue: new("s1")}
	}
	c.Nodes[10].Spec.Taints = []corev1.Taint{{Key: "rack", Value: "cage-of-bob", Effect: corev1.TaintEffectNoSchedule}}
	c.Rules = append(c.Rules, *c.Rules[0].DeepCopy()) // of a node that has left the cluster
	c.Rules[1].Name, c.Rules[1].Spec.DeviceSelector.Pool = "rdma-drain.node.gone", new("gone-away")
	c.Unread = model.UnreadKinds{{Kind: model.NodeEvents, Why: `events is forbidden: User "alice@corp" cannot list them`}}
	s.Missing = c.Unread.Why()
	lookalike := *c.Pods[0].DeepCopy()
	lookalike.Name, lookalike.Namespace = "miner", "team-cage"
	c.Pods, c.UserPods = append(c.Pods, lookalike), append(c.UserPods, lookalike)
	s.Missing = append(s.Missing, c.Lookalikes())
	leafName, hide := (&bundle.Source{Cluster: c, Key: []byte("a test")}).Redact("")
	s.LeafName, s.Cluster = leafName, bundle.HideDrains(c)
	page := written(t, s, hide)
	for _, secret := range []string{
		"gpu-01", "gpu-12", "gpu-14", "gpu-16", "llm", "allreduce", "serve-", "leaf-su", "jane", "rdma-drain.node", "alice",
		"ticket 4711", "a088c2251000", "Ostblatt", ">s1<", "cage-of-bob", "gone-away", "team-cage", "miner", "orValue(0)",
		"16 cannot allocate",
	} {
		at := strings.Index(page, secret)
		test.Eq(t, -1, at, test.Sprintf("%s is left: %s", secret, page[max(0, at-60):max(0, min(len(page), at+60))]))
	}
	test.StrContains(t, page, "(leaf switch ")
	test.StrContains(t, page, "taint rack=(hidden):NoSchedule")
	must.Eq(t, len(published(s.Cluster)), len(cells(t, page)))
}

// TestReportUnread: what depends on a kind of object that could not be read is not seen, and never free.
func TestReportUnread(t *testing.T) {
	for _, kind := range []model.Kind{model.Claims, model.Rules} {
		s := modelled(t)
		s.Cluster = world{cluster: s.Cluster}.without(string(kind)).cluster
		s.Missing = s.Cluster.Unread.Why()
		page := written(t, s, same)
		test.StrContains(t, page, string(kind)+" is forbidden")
		for name, cell := range cells(t, page) {
			test.StrNotContains(t, cell, "free", test.Sprintf("%s without %s", name, kind))
		}
	}
	s := modelled(t)
	s.Cluster.UserPods = nil
	s.Cluster.Unread = model.UnreadKinds{{Kind: model.UserPods, Why: "pods is forbidden"}}
	page := written(t, s, same)
	test.StrContains(t, page, "<b>?</b><span>waiting pods</span>")
	test.StrContains(t, page, "default/llm-70b-0")
}

// TestReportAsksOnce: one pod of each owner and request is explained, at most 50, and the others are counted.
func TestReportAsksOnce(t *testing.T) {
	s := modelled(t)
	waiting := slices.IndexFunc(s.Cluster.UserPods, func(p corev1.Pod) bool { return p.Name == "debug" })
	for i := range 60 {
		p := *s.Cluster.UserPods[waiting].DeepCopy()
		p.Name = fmt.Sprintf("debug-%d", i)
		s.Cluster.UserPods = append(s.Cluster.UserPods, p)
	}
	p, err := fabric.New(t.Context(), s)
	must.NoError(t, err)
	explained := 0
	for _, w := range p.Waiting {
		explained += w.Pods
	}
	test.Eq(t, 50, len(p.Waiting))
	test.Eq(t, *lists.FleetOf(s.Cluster, lists.Pods(t.Context(), s.Cluster)).Waiting, explained+p.Unexplained)
}

// TestReportOfAThousandNodes: the page of 9,000 HCAs is below 10 MB, and healthy nodes are folded.
func TestReportOfAThousandNodes(t *testing.T) {
	c := busy(t, 1000)
	began := time.Now()
	page := written(t, &fabric.Source{Cluster: c}, same)
	t.Logf("%.1f MB in %v", float64(len(page))/1e6, time.Since(began))
	test.Eq(t, 9000, len(cells(t, page)))
	test.Less(t, 10<<20, len(page))
	test.Eq(t, 0, strings.Count(page, "<details class=\"group\" open"))
	t.Run("browser", func(t *testing.T) {
		needs.Long(t, "TestReportInBrowser has 16 nodes")
		fabrictest.Check(t, page, slices.Collect(maps.Keys(published(c))))
	})
}
