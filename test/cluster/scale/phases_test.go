package scale

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shoenig/test/must"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
)

// phase is a part of the life of all drivers.
type phase struct {
	name string
	// concerned are the nodes to which it happens; nil for all.
	concerned []*node
	// does what happens. It returns when that is over for the world, not for the drivers.
	does func(context.Context) error
	// first and second are how many devices of the nodes of each leaf have a taint in the end.
	first, second int
	// lasts is the shortest time of the phase.
	lasts time.Duration
	// said are the most requests of a concerned driver, as docs/dev/benchmarks.md says, beside those at rest.
	said map[string]int
}

// arrive starts the drivers, and a pod for each of their HCAs.
func (f *drivers) arrive() {
	hcas := len(f.nodes[0].host.hcas)
	f.run(phase{name: "install: all drivers start at once", lasts: *pause, said: map[string]int{
		"GET nodes": 3, "WATCH resourceslices": 1, "POST resourceslices": 2, // one is a dry run
	}, does: func(context.Context) error { return f.start() }})
	f.allocate()
	f.run(phase{name: "pods start: 9 on each node, with a claim each", lasts: *pause, said: map[string]int{
		"GET resourceclaims": hcas, "PATCH resourceclaims/status": 2 * hcas,
	}, does: f.startPods})
}

// live leads the drivers through all phases.
func (f *drivers) live() {
	f.arrive()
	first, second := f.nodes[:f.leaf], f.nodes[f.leaf:2*f.leaf]
	hcas := len(f.nodes[0].host.hcas)
	flap := func(nodes []*node, hcas int, up bool) func(context.Context) error {
		return func(context.Context) error { f.flap(nodes, hcas, up); return nil }
	}
	f.run(phase{name: "rest", lasts: 2 * *pause, does: func(context.Context) error { return nil }})
	f.run(phase{name: "the switch of a rail fails", concerned: first, first: 1, lasts: *pause, said: map[string]int{
		"PUT resourceslices": 2, "POST events": 3, "GET resourceclaims": 1, "PATCH resourceclaims/status": 1,
	}, does: flap(first, 1, false)})
	f.run(phase{name: "it comes back", concerned: first, lasts: *pause, said: map[string]int{
		"PUT resourceslices": 2, "POST events": 3, "GET resourceclaims": 1, "PATCH resourceclaims/status": 1,
	}, does: flap(first, 1, true)})
	all := map[string]int{
		"PUT resourceslices": 4, "POST events": 1 + 2*hcas, "GET resourceclaims": hcas, "PATCH resourceclaims/status": hcas,
		"PATCH events": 3, // of those, events that the driver has sent before
	}
	f.run(phase{name: "all links of a leaf fail", concerned: first, first: hcas, lasts: 5 * *pause / 2,
		said: all, does: flap(first, hcas, false)})
	f.run(phase{name: "they come back", concerned: first, lasts: 5 * *pause / 2,
		said: all, does: flap(first, hcas, true)})
	f.run(phase{name: "the API server is killed, and starts again", lasts: *pause, said: map[string]int{
		"WATCH resourceslices": 3,
	}, does: f.restart})
	f.run(phase{name: "the API server refuses drivers for a minute, and all links of another leaf fail",
		concerned: second, second: hcas, lasts: 3 * *pause, said: all, does: func(ctx context.Context) error {
			return f.refuse(ctx, func() { f.flap(second, hcas, false) })
		}})
	f.renew(hcas)
	f.run(phase{name: "all drivers restart", second: hcas, lasts: *pause, said: map[string]int{
		"GET nodes": 2, "WATCH resourceslices": 1, "POST resourceslices": 1, "GET resourceclaims": hcas,
	}, does: func(context.Context) error { return errors.Join(f.stop(), f.start()) }})
}

// renew restarts all kubelets. So many devices of each node of the second leaf have a taint.
func (f *drivers) renew(second int) {
	f.run(phase{name: "all kubelets restart", second: second, lasts: *pause, said: map[string]int{
		"GET nodes": 2, "POST resourceslices": 1,
	}, does: f.restartKubelets})
}

// run leads the drivers through one phase, and keeps what it cost.
func (f *drivers) run(p phase) {
	f.Helper()
	fmt.Printf("%s %d drivers: %s\n", time.Now().UTC().Format(time.TimeOnly), len(f.nodes), p.name)
	before := make([]tally, len(f.nodes))
	for i, n := range f.nodes {
		before[i] = n.ledger.tally()
	}
	began, worked := time.Now(), f.processor()
	must.NoError(f, p.does(f.Context()), must.Sprint(p.name))
	happened := time.Now()
	f.await(func() error { return f.right(p.first, p.second) })
	settled := time.Since(happened)
	time.Sleep(p.lasts - time.Since(began))
	r := result{phase: p, took: time.Since(began), settled: settled, processor: f.processor() - worked,
		peak: f.all.most(began)}
	for i, n := range f.nodes {
		of := &r.others
		if p.concerned == nil || slices.Contains(p.concerned, n) {
			of = &r.concerned
		}
		*of = append(*of, n.ledger.tally().since(before[i]))
	}
	f.results = append(f.results, r)
	fmt.Print(r.rows())
}

// allocate makes the claims of all nodes.
func (f *drivers) allocate() {
	f.Helper()
	devices := f.devices()
	f.each(len(f.nodes), func(ctx context.Context, i int) error {
		var names []string
		for _, d := range devices[f.nodes[i].name] {
			names = append(names, d.Name)
		}
		return f.nodes[i].allocate(ctx, f.server, names)
	})
}

func (f *drivers) startPods(context.Context) error {
	f.each(len(f.nodes), func(ctx context.Context, i int) error { return f.nodes[i].startPods(ctx) })
	return nil
}

// restartKubelets returns when the watch shows no slice of before.
func (f *drivers) restartKubelets(context.Context) error {
	before := f.published()
	f.each(len(f.nodes), func(ctx context.Context, i int) error { return f.nodes[i].restartKubelet(ctx, f.server) })
	f.await(func() error {
		for uid, s := range f.published() {
			if before[uid] != nil {
				return fmt.Errorf("slice %s was deleted, and the watch shows it", s.Name)
			}
		}
		return nil
	})
	return nil
}

// shedding gives the drivers a priority level without room, in which requests do not wait (API Priority and Fairness).
const shedding = `
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: no-room}
spec:
  type: Limited
  limited: {nominalConcurrencyShares: 0, lendablePercent: 0, borrowingLimitPercent: 0, limitResponse: {type: Reject}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: drivers}
spec:
  matchingPrecedence: 100
  priorityLevelConfiguration: {name: no-room}
  rules:
  - subjects:
    - {kind: ServiceAccount, serviceAccount: {name: ` + deploy.Release + `, namespace: ` + deploy.Namespace + `}}
    resourceRules:
    - {verbs: ["*"], apiGroups: ["*"], resources: ["*"], clusterScope: true, namespaces: ["*"]}
`

// refuse has the API server refuse all requests of drivers while something happens, and for a minute after that.
func (f *drivers) refuse(ctx context.Context, while func()) error {
	f.apply(shedding)
	f.await(func() error {
		for _, n := range f.nodes {
			if n.ledger.tally().refused > 0 {
				return nil
			}
		}
		return errors.New("the API server refused no request of a driver")
	})
	while()
	time.Sleep(*pause)
	return f.client.FlowcontrolV1().FlowSchemas().Delete(ctx, "drivers", metav1.DeleteOptions{})
}

// result is what one phase cost.
type result struct {
	phase             phase
	concerned, others tallies
	took, settled     time.Duration
	processor         float64 // seconds of the API server
	peak              int     // requests in a second, of all drivers
}

// tallies are what several drivers asked in a phase.
type tallies []tally

// kinds is the mean of each kind of request, and in parentheses the most of one driver if that is more.
func (t tallies) kinds() string {
	sum, most := map[string]int{}, map[string]int{}
	for _, one := range t {
		for kind, n := range one.requests {
			sum[kind] += n
			most[kind] = max(most[kind], n)
		}
	}
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(sum)) {
		text := kind + " " + number(float64(sum[kind])/float64(len(t)))
		if sum[kind] != most[kind]*len(t) {
			text += fmt.Sprintf(" (%d)", most[kind])
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// more is what a driver asked beyond what a phase allows, and "-" if that is nothing.
func (t tallies) more(said map[string]int, took time.Duration) string {
	most := map[string]int{}
	for _, one := range t {
		for kind, n := range one.requests {
			most[kind] = max(most[kind], n)
		}
	}
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(most)) {
		allowed := said[kind] + atRest(kind, took)
		if most[kind] > allowed {
			out = append(out, fmt.Sprintf("%s %d over %d", kind, most[kind], allowed))
		}
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, ", ")
}

// atRest are the most requests that a driver makes whatever happens: a comparison with a list after 20 to 30 s, and a
// watch after 5 to 10 minutes.
func atRest(kind string, took time.Duration) int {
	switch kind {
	case "LIST resourceslices":
		return int(took/(20*time.Second)) + 1
	case "WATCH resourceslices":
		return int(took/(5*time.Minute)) + 1
	}
	return 0
}

// mean is the mean of a figure.
func (t tallies) mean(of func(tally) float64) string {
	sum := 0.0
	for _, one := range t {
		sum += of(one)
	}
	return number(sum / float64(len(t)))
}

// number has two digits after the point, or none where they say nothing.
func number(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", x), "0"), ".")
}

const tableHead = "| phase | of | requests of a driver: mean, in parentheses the most | more than said | " +
	"429; no answer | KiB sent; received | in all in a second | slices right after | API server |\n" +
	"|---|---|---|---|---|---|---|---|---|\n"

// rows are the lines of a phase in the table.
func (r *result) rows() string {
	var out strings.Builder
	for i, group := range []tallies{r.concerned, r.others} {
		if len(group) == 0 {
			continue
		}
		said := r.phase.said
		name, rest := "**"+r.phase.name+"**, "+r.took.Round(time.Second).String(), "| | |"
		if i == 0 {
			rest = fmt.Sprintf("%d | %.1f s | %.1f s |", r.peak, r.settled.Seconds(), r.processor)
		} else {
			said, name = nil, "the others"
		}
		fmt.Fprintf(&out, "| %s | %d | %s | %s | %s; %s | %s; %s | %s\n", name, len(group), group.kinds(),
			group.more(said, r.took),
			group.mean(func(t tally) float64 { return float64(t.refused) }),
			group.mean(func(t tally) float64 { return float64(t.unanswered) }),
			group.mean(func(t tally) float64 { return float64(t.sent) / 1024 }),
			group.mean(func(t tally) float64 { return float64(t.received) / 1024 }), rest)
	}
	return out.String()
}

// report is what all phases cost.
func (f *drivers) report() string {
	var out strings.Builder
	fmt.Fprintf(&out, "**%d drivers**, on %s, %s. %s.\n\n", len(f.nodes), time.Now().UTC().Format(time.DateOnly),
		machine(f), f.version())
	out.WriteString(tableHead)
	for i := range f.results {
		out.WriteString(f.results[i].rows())
	}
	out.WriteString("\n")
	return out.String()
}

// version names the API server and etcd.
func (s *server) version() string {
	info, err := s.client.Discovery().ServerVersion()
	must.NoError(s, err)
	return "kube-apiserver " + info.GitVersion + " with its etcd, on the same machine"
}
