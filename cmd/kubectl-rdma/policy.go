package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
)

// The exit codes of dra-driver slices.
const (
	driverRefuses   = 2
	driverUnapplied = 3
)

// policyTest are the flags of the command.
type policyTest struct {
	p       *plugin
	o       *output
	nodes   nodeChoice
	file    string
	kubectl kubectl
}

func newPolicyTest(p *plugin) *cobra.Command {
	t := &policyTest{p: p}
	cmd := &cobra.Command{
		Use:   "test -f FILE [NODE...]",
		Short: "Say what nodes would publish with another policy, and what would change",
		Long: `Ask the drivers of nodes what they would publish with another policy, and
compare that with what they publish now: new (+), gone (-) and changed (~) devices, and
the claims that hold one that new claims would not get. Notes say which features the API
server lacks or may lack, and which rules and fields of selectors match no HCA. It changes
nothing. Without names of nodes, it asks all drivers; nodes with the same answer share a
paragraph.

It runs "dra-driver slices" in the pods of the drivers, by kubectl. For that you need
the right to create pods/exec in their namespace, which is as good as root on nodes.

` + policyCodes.Help(),
		Example: `  kubectl rdma policy test -f new.yaml worker-3
  kubectl rdma policy test -f new.yaml -l pool=gpu -o wide
  helm template deployments/helm/dra-driver-rdma -f values.yaml -s templates/configmap.yaml |
      yq '.data["config.yaml"]' | kubectl rdma policy test -f -`,
		RunE: func(cmd *cobra.Command, names []string) error {
			t.kubectl.flags = kubectlFlags(cmd.InheritedFlags())
			return t.run(cmd.Context(), names)
		},
	}
	t.o = newOutput(p.IOStreams, cmd, "text", "wide")
	t.nodes.register(p, cmd)
	cmd.Flags().StringVarP(&t.file, "filename", "f", "", "policy `FILE`, - for standard input")
	cmd.Flags().DurationVar(&t.kubectl.timeout, "timeout", 30*time.Second, "`TIME` for the answer of one driver")
	if err := cmd.MarkFlagRequired("filename"); err != nil {
		panic(err)
	}
	return cmd
}

func (t *policyTest) run(ctx context.Context, names []string) error {
	file, err := yamlread.Config.ReadArgument(t.file, t.p.In)
	if err != nil {
		return cli.Usagef("read the policy: %w", err)
	}
	c, chosen, err := t.nodes.read(ctx, t.p, names, collect.Pods, collect.Classes, collect.Claims)
	if err != nil {
		return err
	}
	pods, err := c.DriverPods(chosen)
	if err != nil {
		return err
	}
	answers, refused := t.ask(ctx, pods, file)
	if !refused {
		answers = append(answers, lists.Unasked(c, pods, chosen)...)
	}
	tests := lists.PolicyTests(c, answers)
	if err := t.print(c.Minor, tests); err != nil {
		return err
	}
	if refused {
		return &cli.Coded{Code: exitWrong, Err: fmt.Errorf(
			"the driver of node %s refuses the policy, and no other driver was asked", tests[0].Node)}
	}
	wrong := 0
	for _, test := range tests {
		if test.Problem != "" {
			wrong++
		}
	}
	if wrong > 0 {
		return &cli.Coded{Code: exitWrong, Err: fmt.Errorf(
			"the policy is not right for %d of %s, or nobody can tell", wrong, text.Count(len(tests), "node"))}
	}
	return nil
}

// print writes the answers. minor is the API server's minor version, 0 if it does not say.
func (t *policyTest) print(minor int, tests []lists.PolicyTest) error {
	if t.o.printer != nil {
		return t.o.object("PolicyTestList", map[string]any{"items": tests, "serverMinor": minor})
	}
	if minor > 0 {
		fmt.Fprintf(t.p.Out, "API server: Kubernetes 1.%d\n", minor)
	}
	return lists.WritePolicyTests(t.p.Out, tests, t.o.format == "wide")
}

// ask asks the drivers. If the first one refuses the file, the others are not asked: they would, too.
func (t *policyTest) ask(
	ctx context.Context, pods []corev1.Pod, file []byte,
) (out []lists.PolicyAnswer, refused bool) {
	out = make([]lists.PolicyAnswer, len(pods))
	if out[0], refused = t.askOne(ctx, &pods[0], file); refused {
		return out[:1], true
	}
	rest := pods[1:]
	askEach(rest, func(i int) { out[1+i], _ = t.askOne(ctx, &rest[i], file) })
	return out, false
}

// askOne asks the driver of a node. It reports whether the driver refuses the file.
func (t *policyTest) askOne(ctx context.Context, pod *corev1.Pod, file []byte) (a lists.PolicyAnswer, refused bool) {
	a.Node = pod.Spec.NodeName
	out, said, code := t.kubectl.exec(ctx, pod, file, "slices", "--config=-", "--output=json")
	if code != 0 {
		a.Problem = cmp.Or(said, fmt.Sprintf("driver %s/%s has not answered within %v", pod.Namespace, pod.Name,
			t.kubectl.timeout))
	}
	if code == 0 || code == driverUnapplied {
		var would struct {
			resourceapi.ResourceSliceList
			Notes []string
		}
		if err := json.Unmarshal(out, &would); err != nil {
			a.Problem = fmt.Sprintf("read the answer of driver %s/%s: %v", pod.Namespace, pod.Name, err)
		}
		a.Slices, a.Notes = would.Items, would.Notes
	}
	return a, code == driverRefuses
}
