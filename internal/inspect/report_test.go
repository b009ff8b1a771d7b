package inspect_test

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/bundle"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/fabric"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/traffic"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
)

// modelled is the cluster of the picture in README.
func modelled(t testing.TB) *fabric.Source {
	f := fleet.Fabric(t)
	c := cluster(f)
	c.UserPods, c.Now = f.Pods, time.Date(2026, 11, 1, 9, 30, 0, 0, time.UTC)
	s := &fabric.Source{
		Cluster: c, Version: "0.1.0", Search: time.Minute, Tests: map[string]*traffic.Record{}, Drawn: []string{"gpu-12"},
	}
	for _, h := range c.View().HCAs(model.NodeChoice{}) {
		r := s.Tests[h.Node]
		if r == nil {
			r = &traffic.Record{Node: h.Node, Time: c.Now.Add(-26 * time.Hour)}
			s.Tests[h.Node] = r
		}
		v := traffic.Verdict{HCA: h.HCA, State: traffic.Good, Alone: 389, Together: 386}
		if h.Node == "gpu-10" && h.Rail == "1" {
			v.State, v.Least, v.SlowWith = traffic.Slow, 330, []string{"gpu-09/mlx5_1", "gpu-11/mlx5_1"}
		}
		r.HCAs = append(r.HCAs, v)
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
		"gpu-08 3": "free ·", "gpu-12 4": "degraded ~", "gpu-13 6": "miswired ≠", "gpu-14 0": "drained D",
		"gpu-15 0": "notseen ?",
	} {
		test.Eq(t, want, kernel[where], test.Sprint(where))
	}
	for _, want := range []string{
		"rdma.dev/port-down (NoSchedule) since Nov 1 06:30 UTC", "riser swap, ticket 4711", "driver NotReady",
		"slow: below 330Gb/s", "default/jobset/llm-70b", "leaf-su2-r7", "<b>default/jobset/llm-405b</b> <span class=\"dim\">3 pods</span>", "<svg",
	} {
		test.StrContains(t, page, want)
	}
	test.Eq(t, health.Miswired.Key(), "rdma.dev/miswired", test.Sprint("the key that the page knows"))
}

// TestReportMixed: VFs, shares, groups and devices of both forms are in the page once, too.
func TestReportMixed(t *testing.T) {
	c := mixedCluster(t)
	page := written(t, &fabric.Source{Cluster: c}, same)
	must.Eq(t, len(published(c)), len(cells(t, page)))
	test.StrContains(t, page, "room for more")
	test.StrContains(t, page, " part")
	for i := range c.Slices { // whoever may write slices can leave the node out
		if spec := &c.Slices[i].Spec; spec.Pool.Name == "node2" {
			spec.NodeName, spec.AllNodes = nil, new(true)
		}
	}
	must.Eq(t, len(published(c)), len(cells(t, written(t, &fabric.Source{Cluster: c}, same))))
	empty := written(t, &fabric.Source{Cluster: &model.Cluster{}}, same)
	test.StrContains(t, empty, "No node runs the driver")
}

// external are ways in which a page can ask the network, run something or leave its element.
var external = regexp.MustCompile(`(?i)<(script|link|img|iframe|object|embed|form|base|a|x)\b|\bon\w+=|url\(|@import|javascript:|(src|href|action)=`)

// TestReportHostile: no text of others becomes an element, an attribute or a style, or asks the network.
func TestReportHostile(t *testing.T) {
	test.Eq(t, "", external.FindString(written(t, modelled(t), same)))
	for _, hostile := range []string{
		`"><script>alert(1)</script>`, `</style><x onload=y>`, `';background:url(http://x)}`, `</title></pre><x>`,
		`javascript:alert(1)`, "\x1b]0;x\a\u202e<x>",
	} {
		s := modelled(t)
		forge(reflect.ValueOf(s.Cluster).Elem(), "", func(field, value string) string {
			if slices.Contains([]string{"Name", "Namespace", "Message", "Reason", "StringValue", "Key", "Value"}, field) &&
				value != "" && !strings.HasPrefix(value, "rdma.dev/drain") {
				return value + hostile
			}
			return value
		})
		s.Cluster.Unread = model.UnreadKinds{{Kind: model.NodeEvents, Why: hostile}}
		s.Missing, s.Version = []string{hostile}, hostile
		page := written(t, s, same)
		if at := regexp.MustCompile(`<(script|x)\b|<[^>"]*("[^"]*"[^>"]*)*(url\(|style="[^"]*http)`).FindStringIndex(page); at != nil {
			t.Errorf("%q is in the page: %s", hostile, page[max(0, at[0]-80):min(len(page), at[1]+40)])
		}
		test.StrNotContains(t, page, "\u202e")
		test.Eq(t, 2, strings.Count(page, "</style>"), test.Sprint("style sheets: that of the page, and that of the tree"))
	}
}

// TestReportRedacted: nothing that identifies is left, wherever it stands.
func TestReportRedacted(t *testing.T) {
	s := modelled(t)
	scrub := (&bundle.Source{Cluster: s.Cluster, Key: []byte("a test")}).Scrubber()
	page := written(t, s, scrub.Text)
	for _, secret := range []string{"gpu-01", "gpu-12", "gpu-14", "gpu-16", "llm", "allreduce", "serve-", "leaf-su", "jane", "rdma-drain.node"} {
		at := strings.Index(page, secret)
		test.Eq(t, -1, at, test.Sprintf("%s is left: %s", secret, page[max(0, at-60):max(0, min(len(page), at+60))]))
	}
	test.StrContains(t, page, "(leaf switch ")
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
	test.StrContains(t, page, "<b>?</b><span>pods wait</span>")
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
}
