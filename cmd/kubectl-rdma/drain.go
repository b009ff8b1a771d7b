package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/drain"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// maxReason bounds --reason, which other commands repeat in their tables.
const maxReason = 200

// drainer is a run of kubectl rdma drain.
type drainer struct {
	p      *plugin
	o      *output
	client kubernetes.Interface
	rules  *drain.Rules

	node                string
	hcas                []string
	reason, effect      string
	evict, dryRun, sure bool
}

// drained is what drain and undrain print for programs.
type drained struct {
	*drain.Plan
	Results []drain.Result `json:"results"`
	DryRun  bool           `json:"dryRun,omitempty"`
}

func newDrain(p *plugin) *cobra.Command {
	d := &drainer{p: p}
	cmd := &cobra.Command{
		Use:   "drain NODE [HCA...]",
		Short: "Take HCAs of a node out of service, or all of them",
		Long: `Take HCAs of a node out of service: new claims get other HCAs, and running pods stay.
Without the name of an HCA, all HCAs of the node are drained. An HCA is named as in
"kubectl rdma devices": by its device, or by IBDEV.

It writes a DeviceTaintRule for each device of the HCA: the device for one claim, the one
for many claims, and those of its VFs and SFs. It also drains all groups of the node,
since ResourceSlices do not say which HCAs a group has. The rules keep their HCA when the
kernel's name changes. Draining again changes nothing.

First it lists the claims and pods that use the devices. With --evict, it asks, and then
Kubernetes ends the pods. This ignores PodDisruptionBudgets. A pod stays
only if its claim tolerates the taint rdma.dev/drain with the effect NoExecute, and for
tolerationSeconds at most.`,
		Example: `  kubectl rdma drain worker-3 mlx5_2 --reason "cable 17"
  kubectl rdma drain worker-3 --evict
  kubectl rdma undrain worker-3 mlx5_2`,
		ValidArgsFunction: p.completer(hcaNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := d.check(args); err != nil {
				return err
			}
			return d.run(cmd.Context())
		},
	}
	d.o = newOutput(p.IOStreams, cmd, "text")
	cmd.Flags().StringVar(&d.reason, "reason", "", "why, for others: `TEXT` of at most 200 bytes")
	cmd.Flags().StringVar(&d.effect, "effect", string(resourceapi.DeviceTaintEffectNoSchedule),
		"`EFFECT` on new claims: NoSchedule, or None, which only marks the HCAs")
	cmd.Flags().BoolVar(&d.evict, "evict", false, "also end the running pods, and ignore PodDisruptionBudgets")
	cmd.Flags().BoolVar(&d.dryRun, "dry-run", false, "show what it would do, and let the API server check it")
	cmd.Flags().BoolVarP(&d.sure, "yes", "y", false, "do not ask")
	complete(cmd, "effect", cobra.FixedCompletions([]string{"None", "NoSchedule"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// check reads the arguments.
func (d *drainer) check(args []string) error {
	if len(args) == 0 {
		return cli.Usagef("name a node, as in kubectl rdma drain worker-3 mlx5_2")
	}
	d.node, d.hcas = strings.TrimPrefix(args[0], "node/"), args[1:]
	switch {
	case len(d.reason) > maxReason || strings.ContainsAny(d.reason, "\n\r"):
		return cli.Usagef("read --reason: want one line of at most %d bytes", maxReason)
	case d.evict && d.effect != "" && d.effect != string(resourceapi.DeviceTaintEffectNoSchedule):
		return cli.Usagef("--evict keeps new claims away too: leave --effect=%s out", d.effect)
	case d.evict:
		d.effect = string(resourceapi.DeviceTaintEffectNoExecute)
	case d.effect != "None" && d.effect != "NoSchedule":
		return cli.Usagef("read --effect: %q is not None or NoSchedule; to end running pods, use --evict", d.effect)
	}
	return nil
}

func (d *drainer) run(ctx context.Context) error {
	c, err := d.open(ctx, d.node, collect.Slices, collect.Claims, collect.Rules)
	if err != nil {
		return err
	}
	plan, err := drain.NewPlan(c, d.node, d.hcas, resourceapi.DeviceTaintEffect(d.effect), d.reason)
	if err != nil {
		return err
	}
	results, err := d.rules.Apply(ctx, plan.Rules, true)
	if err != nil {
		return err
	}
	d.show(plan)
	if !d.dryRun {
		if err := d.confirm(ctx, plan); err != nil {
			return err
		}
		if results, err = d.rules.Apply(ctx, plan.Rules, false); err != nil {
			return err
		}
	}
	return d.report(plan, results)
}

// open finds the API of rules, and reads the cluster.
func (d *drainer) open(ctx context.Context, node string, about collect.Kind,
	others ...collect.Kind) (*model.Cluster, error) {
	var err error
	if d.client, err = d.p.client(); err != nil {
		return nil, err
	}
	if d.rules, err = drain.Open(ctx, d.client); errors.Is(err, drain.ErrNotServed) {
		return nil, fmt.Errorf("%w. Instead, keep pods off the node with kubectl cordon %s, or stop publishing the HCA in "+
			"the policy (docs/operate.md)", err, text.Shell(node))
	} else if err != nil {
		return nil, err
	}
	c, err := collect.Reader{Client: d.client}.Read(ctx, about, others...)
	if err != nil {
		return nil, err
	}
	if len(c.Unread) > 0 {
		return nil, fmt.Errorf("read the cluster: %s; nothing was changed", strings.Join(c.Unread.Why(), "; "))
	}
	return c, d.checkDrainable(ctx, c, node)
}

// checkDrainable returns an error for a node that neither publishes devices, nor has a rule, nor is in the cluster: a
// misspelled name would drain nothing, and say nothing.
func (d *drainer) checkDrainable(ctx context.Context, c *model.Cluster, node string) error {
	drained := func(o model.Drain) bool { return o.Node == node }
	if drain.HasDevices(c, node) || slices.ContainsFunc(lists.Drains(c), drained) {
		return nil
	}
	_, err := d.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("find node %q: the driver publishes no devices of it; see kubectl rdma nodes", node)
	}
	return err
}

// show lists what a plan selects, and who uses it.
func (d *drainer) show(plan *drain.Plan) {
	if d.o.printer != nil {
		return
	}
	if len(plan.HCAs) == 0 {
		text.Fprintf(d.p.Out, "Node %s: all HCAs\n", plan.Node)
	}
	for _, t := range plan.HCAs {
		text.Fprintf(d.p.Out, "Node %s: HCA %s (%s), in all forms: %s\n", plan.Node, t.Name, t.IBDev,
			strings.Join(t.Devices, ", "))
		if n := len(t.Functions); n > 0 {
			text.Fprintf(d.p.Out, "  and with it %s of its VFs and SFs\n", text.Count(n, "device"))
		}
		if len(t.Groups) > 0 {
			text.Fprintf(d.p.Out, "  and with it %s: the ResourceSlices do not say which HCAs a group has\n",
				text.Some(t.Groups, ", "))
		}
	}
	if len(plan.Users) == 0 {
		fmt.Fprintln(d.p.Out, "No claim has these devices.")
		return
	}
	text.Fprintf(d.p.Out, "These devices are in use by %s. With --evict, Kubernetes would end %s:\n",
		text.Count(len(plan.Users), "claim"), text.Count(plan.Evicted(), "pod"))
	_ = printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(drain.UserTable(plan.Users), d.p.Out)
}

// confirm asks before pods are ended.
func (d *drainer) confirm(ctx context.Context, plan *drain.Plan) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted; nothing was changed")
	}
	if !d.evict || d.sure {
		return nil
	}
	text.Fprintf(d.p.ErrOut, "NoExecute ignores PodDisruptionBudgets: Kubernetes ends %s, and others that get these "+
		"devices meanwhile.\nContinue? Answer yes or no: ", text.Count(plan.Evicted(), "pod"))
	answers := make(chan string, 1)
	go func() { // a read of the terminal cannot be interrupted
		var answer string
		_, _ = fmt.Fscanln(d.p.In, &answer) // without an answer it is no
		answers <- answer
	}()
	select {
	case <-ctx.Done():
		return errors.New("interrupted; nothing was changed")
	case answer := <-answers:
		if strings.EqualFold(answer, "yes") || strings.EqualFold(answer, "y") {
			return nil
		}
		return errors.New("the answer is not yes; nothing was changed. Scripts pass --yes")
	}
}

// report prints what was done.
func (d *drainer) report(plan *drain.Plan, results []drain.Result) error {
	if d.o.printer != nil {
		return d.o.object("Drain", drained{Plan: plan, Results: results, DryRun: d.dryRun})
	}
	note, all := "", ": kubectl get devicetaintrules -l "+model.DrainKey
	if d.dryRun {
		note, all = " (dry run)", ""
	}
	names := map[string][]string{}
	for _, r := range results {
		names[r.Done] = append(names[r.Done], r.Rule)
	}
	for _, what := range slices.Sorted(maps.Keys(names)) {
		if n := len(names[what]); n > 3 {
			text.Fprintf(d.p.Out, "%d DeviceTaintRules %s%s%s\n", n, what, note, all)
			continue
		}
		for _, name := range names[what] {
			text.Fprintf(d.p.Out, "DeviceTaintRule %s %s%s\n", name, what, note)
		}
	}
	return nil
}
