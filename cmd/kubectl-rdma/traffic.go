package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/version"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/drain"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/traffic"
)

var testCodes = exitcode.List{
	exitcode.OK:     "all HCAs were tested and are good",
	exitcode.Failed: "failed", exitcode.Usage: exitcode.BadUsage,
	exitWrong:   "an HCA is slow",
	exitUnknown: "no HCA is slow, but an HCA was not measured or is unclear, or the test ended early",
}

// tester is a run of kubectl rdma test nodes.
type tester struct {
	p       *plugin
	o       *output
	nodes   nodeChoice
	cluster traffic.Cluster

	rails                       []string
	duration, wait              time.Duration
	least                       int
	alone, taint, besideWaiting bool
	drivers                     map[string]string // versions by node
	leftOut                     []model.HCA
}

func newTestNodes(p *plugin) *cobra.Command {
	t := &tester{p: p}
	cmd := &cobra.Command{
		Use:   "nodes NODE...",
		Short: "Test the HCAs of nodes by traffic between them",
		Long: `Test the HCAs of nodes by traffic between them, and name those that are slow. This is an
advanced command: it takes free HCAs from users while it runs, and fills their links.

It creates a pod with a claim on each node, in the namespace of --namespace, and runs
perftest between two pods: on each rail in a ring of nodes, below one leaf switch if the
HCAs have the attribute leafSwitch, and then on all rails at once. The rate is that of
perftest's completed messages. An HCA is slow only if its rates with all peers are
below --min of the median, and two of these peers are good with others. So two nodes
with one HCA each prove nothing. HCAs without a figure are not measured, never slow.

Only HCAs that no claim has are tested. The test does not start, or stops, while other
pods wait for RDMA devices. All objects of a test belong to one Job: when the command is
interrupted it removes them, and when it is killed Kubernetes does within minutes. The
results stay, in a ConfigMap for each node: kubectl rdma status --tests shows them.
EFA is not supported.

` + testCodes.Help(),
		Example: `  kubectl rdma test nodes worker-1 worker-2 worker-3 -n rdma-test
  kubectl rdma test nodes -l pool=gpu --image=registry.example.com/perftest:1 --rails=0,3 --duration=30s`,
		RunE: func(cmd *cobra.Command, names []string) error { return t.run(cmd.Context(), names) },
	}
	t.o = newOutput(p.IOStreams, cmd, "text")
	t.nodes.register(p, cmd)
	f := cmd.Flags()
	f.StringSliceVar(&t.rails, "rails", []string{"all"}, "`RAILS` to test: all, or numbers, a comma-separated list")
	f.DurationVar(&t.duration, "duration", 10*time.Second, "`TIME` that the traffic of a pair takes")
	f.DurationVar(&t.wait, "wait", 2*time.Minute, "`TIME` to wait for the pods")
	f.IntVar(&t.least, "min", 85, "an HCA is slow below this `PERCENT` of the median")
	f.BoolVar(&t.alone, "alone", false, "test rail by rail only, not all rails at once")
	f.BoolVar(&t.taint, "taint", false, "drain the slow HCA: at most one of each node, and 1 % of those tested")
	f.BoolVar(&t.besideWaiting, "beside-waiting", false, "test also while pods wait for RDMA devices")
	f.StringVar(&t.cluster.Image, "image", "", "`IMAGE` with perftest and a shell (default: that of this release)")
	return cmd
}

func (t *tester) check(names []string) error {
	if t.cluster.Image == "" {
		t.cluster.Image = traffic.ImageOf(version.Get())
	}
	switch {
	case len(names) == 0 && t.nodes.selector == "":
		return cli.Usagef("name nodes, as in kubectl rdma test nodes worker-1 worker-2, or choose them by --selector")
	case t.cluster.Image == "":
		return fmt.Errorf("choose the image with perftest: %s is no release, so it has none; make dist makes it as "+
			"rdma-perftest: name it by --image", text.Foreign(version.Get()))
	case t.duration < 3*time.Second || t.duration > time.Hour:
		return cli.Usagef("read --duration: %s is not between 3s and 1h", t.duration)
	case t.least < 1 || t.least > 99:
		return cli.Usagef("read --min: %d is not between 1 and 99", t.least)
	}
	if slices.Equal(t.rails, []string{"all"}) {
		t.rails = nil
	}
	return nil
}

func (t *tester) run(ctx context.Context, names []string) (err error) {
	if err := t.check(names); err != nil {
		return err
	}
	if t.cluster.Config, err = t.p.config.ToRESTConfig(); err != nil {
		return err
	}
	if t.cluster.Client, err = t.p.client(); err != nil {
		return err
	}
	if t.cluster.Namespace, err = t.p.namespace(); err != nil {
		return err
	}
	// Nothing is created without the rights to all of it.
	if err := traffic.CheckRights(ctx, t.cluster.Client, t.cluster.Namespace); err != nil {
		return err
	}
	hcas, err := t.choose(ctx, names)
	if err != nil {
		return err
	}
	report, err := t.test(ctx, hcas)
	if err != nil {
		return err
	}
	return t.conclude(ctx, report)
}

// choose returns the HCAs to test, in the order in which the nodes were named.
func (t *tester) choose(ctx context.Context, names []string) ([]model.HCA, error) {
	c, chosen, err := t.nodes.read(ctx, t.p, names, collect.Claims, collect.Classes, collect.Rules, collect.Pods)
	if err != nil {
		return nil, err
	}
	if len(c.Unread) > 0 {
		return nil, fmt.Errorf("read the cluster: %s; nothing was created", strings.Join(c.Unread.Why(), "; "))
	}
	hcas, err := c.ListHCAs(ctx, true, chosen)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(hcas, func(a, b model.HCA) int {
		return slices.Index(chosen.Names, a.Node) - slices.Index(chosen.Names, b.Node)
	})
	if hcas, err = traffic.ChooseRails(hcas, t.rails); err != nil {
		return nil, err
	}
	t.drivers = c.DriverVersions()
	var free []model.HCA
	for _, h := range hcas {
		switch {
		case h.Busy != "":
			t.leftOut = append(t.leftOut, h)
		case h.Protocol == "efa":
			h.Busy = "tests of EFA are not supported"
			t.leftOut = append(t.leftOut, h)
		case h.IBDev == "":
			h.Busy = "its slice does not say the kernel's name"
			t.leftOut = append(t.leftOut, h)
		default:
			free = append(free, h)
		}
	}
	if len(traffic.Plan(free, traffic.AtOnce)) == 0 {
		return nil, errors.New(nothingToTest(free, t.leftOut))
	}
	return free, nil
}

func nothingToTest(free, leftOut []model.HCA) string {
	said := fmt.Sprintf("choose pairs of HCAs: %s of these nodes can be tested, and no two of them are of different "+
		"nodes and of one rail and protocol", text.Count(len(free), "HCA"))
	for i := range leftOut {
		if i == 4 {
			return fmt.Sprintf("%s; and %s", said, text.Count(len(leftOut)-i, "other"))
		}
		said += fmt.Sprintf("; left out: %s: %s", leftOut[i].String(), leftOut[i].Busy)
	}
	return said
}

// test creates the objects, measures, and removes the objects, whatever happens.
func (t *tester) test(ctx context.Context, hcas []model.HCA) (report *traffic.Report, err error) {
	started := time.Now()
	if why := t.waiting(ctx); why != "" {
		return nil, errors.New(why + "; nothing was created. To test nevertheless, use --beside-waiting")
	}
	defer func() { err = errors.Join(err, t.cluster.Stop(ctx)) }()
	text.Fprintf(t.p.ErrOut, "Starting pods for %s in namespace %s ...\n", text.Count(len(hcas), "HCA"),
		t.cluster.Namespace)
	ready, leftOut, err := t.cluster.Start(ctx, hcas, t.wait)
	if err != nil {
		return nil, interrupted(ctx, err)
	}
	t.leftOut = append(t.leftOut, leftOut...)
	stages := traffic.Plan(ready, traffic.AtOnce)
	if len(stages) == 0 {
		return nil, errors.New(nothingToTest(ready, t.leftOut))
	}
	addresses, err := t.cluster.Addresses(ctx)
	if err != nil {
		return nil, interrupted(ctx, err)
	}
	m := &traffic.Measure{HCAs: ready, Addresses: addresses, Exec: t.cluster.Exec, Duration: t.duration}
	results, stopped := t.measure(ctx, m, stages)
	report = traffic.NewReport(ready, results, float64(t.least)/100)
	report.Started, report.Ended, report.LeftOut, report.Stopped = started, time.Now(), t.leftOut, stopped
	return report, nil
}

// interrupted puts an error into words that the end of the context caused.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted; the test's objects were removed")
	}
	return err
}

// measure measures stage by stage. It returns the results, and why it stopped early.
func (t *tester) measure(ctx context.Context, m *traffic.Measure, stages []traffic.Stage) (out []traffic.Result,
	stopped string) {
	stages = slices.DeleteFunc(stages, func(s traffic.Stage) bool { return s.Together && t.alone })
	for i, stage := range stages {
		if ctx.Err() == nil {
			stopped = t.waiting(ctx)
		}
		if err := t.cluster.Renew(ctx, m.Longest()); err != nil && stopped == "" {
			stopped = err.Error()
		}
		if ctx.Err() != nil {
			stopped = "interrupted"
		}
		if stopped != "" {
			return out, stopped
		}
		text.Fprintf(t.p.ErrOut, "[%d/%d] %s: %s ...\n", i+1, len(stages), stage.Name, text.Count(len(stage.Pairs), "pair"))
		out = append(out, m.Stage(ctx, stage)...)
	}
	if ctx.Err() != nil {
		stopped = "interrupted"
	}
	return out, stopped
}

// waiting says which pods wait for RDMA devices, "" for none. Kubernetes 1.37 cannot take devices from a pod for
// another one, so a test steps aside by itself.
func (t *tester) waiting(ctx context.Context) string {
	if t.besideWaiting {
		return ""
	}
	r := collect.Reader{Client: t.cluster.Client, UserPods: metav1.ListOptions{FieldSelector: "status.phase=Pending"}}
	c, err := r.Read(ctx, collect.UserPods, collect.Claims, collect.Slices, collect.Classes, collect.Templates)
	if err != nil {
		return fmt.Sprintf("find the pods that wait for RDMA devices: %v", err)
	}
	if len(c.Unread) > 0 { // a pod that waits might look as if it wanted no device
		return "find the pods that wait for RDMA devices: " + strings.Join(c.Unread.Why(), "; ")
	}
	var names []string
	for _, p := range lists.Pods(ctx, c) {
		if p.Status == "Pending" && len(p.Devices) == 0 && !t.cluster.Has(p.Namespace, p.Name) {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	if names == nil {
		return ""
	}
	return fmt.Sprintf("waiting for RDMA devices: %s: %s", text.Count(len(names), "pod"), text.First(names, 4, ", "))
}

// conclude keeps the results, drains, prints, and returns the exit code.
func (t *tester) conclude(ctx context.Context, r *traffic.Report) error {
	for _, record := range r.Records(t.drivers, version.Get()) {
		if err := t.cluster.Save(context.WithoutCancel(ctx), &record); err != nil {
			text.Fprintf(t.p.ErrOut, "Warning: %s\n", text.Foreign(err.Error()))
		}
	}
	slow := traffic.Slowest(r.HCAs)
	if t.taint && len(slow) > 0 {
		if err := t.drain(ctx, r, slow); err != nil {
			text.Fprintf(t.p.ErrOut, "Warning: drain the slow HCA: %s\n", text.Foreign(err.Error()))
		}
	}
	if err := t.print(r); err != nil {
		return err
	}
	switch {
	case len(slow) > 0:
		return &cli.Coded{Code: exitWrong, Err: fmt.Errorf("the test found %s", text.Count(len(slow), "slow HCA"))}
	case !r.Complete():
		return &cli.Coded{Code: exitUnknown, Err: errors.New("the test is not complete")}
	}
	return nil
}

func (t *tester) print(r *traffic.Report) error {
	if t.o.printer != nil {
		return t.o.object("TrafficTest", r)
	}
	return r.WriteText(t.p.Out)
}

// drain takes slow HCAs out of service, if they are few: many at once are a fault of the network, or of the test.
func (t *tester) drain(ctx context.Context, r *traffic.Report, slow []traffic.Verdict) error {
	nodes := map[string]int{}
	for i := range slow {
		nodes[slow[i].Node]++
	}
	most := max(1, len(r.HCAs)/100)
	if len(slow) > most || slices.Max(slices.Collect(maps.Values(nodes))) > 1 {
		text.Fprintf(t.p.ErrOut, "Warning: nothing was drained: %s are slow, "+
			"and at most one of a node and %d of %d tested are drained\n",
			text.Count(len(slow), "HCA"), most, len(r.HCAs))
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	rules, err := drain.Open(ctx, t.cluster.Client)
	if err != nil {
		return err
	}
	c, err := collect.Reader{Client: t.cluster.Client}.Read(ctx, collect.Slices, collect.Claims)
	if err != nil {
		return err
	}
	for i := range slow {
		plan, err := drain.NewPlan(c, slow[i].Node, []string{slow[i].Name}, resourceapi.DeviceTaintEffectNoSchedule,
			"kubectl rdma test: "+text.Bound(slow[i].Reason(), maxReason-20))
		if err != nil {
			return err
		}
		if _, err := rules.Apply(ctx, plan.Rules, false); err != nil {
			return err
		}
		r.Drained = append(r.Drained, slow[i].String())
	}
	return nil
}
