package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/manifest"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/why"
)

// whyAsker has the flags of the command.
type whyAsker struct {
	p     *plugin
	o     *output
	limit time.Duration
	files []string
}

func newWhy(p *plugin) *cobra.Command {
	w := &whyAsker{p: p}
	cmd := &cobra.Command{
		Use:   "why {POD | -f FILE}",
		Short: "Explain why a pod does not get its devices, or does not start with them",
		Long: `Explain why a pod waits for its devices: which selector, taint, claim, capacity or
counter rules out which device, and which change would help. It asks the scheduler's
own allocator, with one change at a time.

If the pod has its devices and does not start, it shows what the kubelet and the driver
say, and what is wrong with the devices.

With -f it answers for pods that do not exist yet: would each of them get its devices
now? It takes the pods of the files, and one pod of each pod template or pod spec, of a
Deployment, a Job, a JobSet or any other object. Claims, templates and classes can be in
the files or in the cluster. It creates nothing, and each pod is judged as if it came
alone.

It explains the devices of all drivers. For CPU, memory and all else, read the line "The
scheduler says". Nobody has looked at these, or at quotas, for a pod of a file.

` + whyCodes.Help(),
		Example: `  kubectl rdma why trainer-0
  kubectl rdma why trainer-0 -o wide
  kubectl rdma why trainer-0 -o jsonpath='{.verdict}{"\n"}'
  kubectl rdma why -f job.yaml -f claims.yaml
  helm template charts/job | kubectl rdma why -f - -o jsonpath='{.items[*].verdict}'`,
		Args:              w.args,
		ValidArgsFunction: p.completer(podNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(w.files) > 0 {
				return w.planned(cmd.Context())
			}
			return w.pod(cmd.Context(), args[0])
		},
	}
	w.o = newOutput(p.IOStreams, cmd, "text", "wide")
	cmd.Flags().DurationVar(&w.limit, "search-time", 20*time.Second, "`TIME` to look for changes that would help")
	cmd.Flags().StringArrayVarP(&w.files, "filename", "f", nil, "`FILE` with pods that do not exist yet, - for "+
		"standard input (repeatable)")
	return cmd
}

// pod explains a pod of the cluster.
func (w *whyAsker) pod(ctx context.Context, arg string) error {
	name, err := podName(arg)
	if err != nil {
		return err
	}
	var reader collect.Reader
	if err := w.p.connect(&reader); err != nil {
		return err
	}
	namespace, err := w.p.namespace()
	if err != nil {
		return err
	}
	cluster, question, err := reader.Pod(ctx, namespace, name)
	if err != nil {
		return err
	}
	answer, err := w.ask(ctx, cluster, question)
	if err != nil {
		return err
	}
	if w.o.printer != nil {
		return w.o.object("Explanation", answer)
	}
	return answer.WriteText(w.p.Out, w.o.format == "wide")
}

// planned explains the pods of files.
func (w *whyAsker) planned(ctx context.Context) error {
	_, m, err := readManifest(w.p, w.files)
	if err != nil {
		return err
	}
	var reader collect.Reader
	if err := w.p.connect(&reader); err != nil {
		return err
	}
	cluster, questions, err := reader.Planned(ctx, m)
	if err != nil {
		return err
	}
	var answers []*why.Answer
	for _, q := range questions {
		answer, err := w.ask(ctx, cluster, q)
		if err != nil {
			return err
		}
		answers = append(answers, answer)
	}
	if err := w.print(answers); err != nil {
		return err
	}
	short := 0
	for _, a := range answers {
		if !a.Verdict.Fits() {
			short++
		}
	}
	if short > 0 {
		return &cli.Coded{Code: exitWrong, Err: fmt.Errorf("%d of %s would not get their devices now, or nobody can tell",
			short, text.Count(len(answers), "pod"))}
	}
	return nil
}

func (w *whyAsker) print(answers []*why.Answer) error {
	if w.o.printer != nil {
		return w.o.object("ExplanationList", map[string]any{"items": answers})
	}
	for i, answer := range answers {
		if i > 0 {
			fmt.Fprint(w.p.Out, "\n\n")
		}
		if err := answer.WriteText(w.p.Out, w.o.format == "wide"); err != nil {
			return err
		}
	}
	return nil
}

// ask answers a question. The time for remedies is that of one question.
func (w *whyAsker) ask(ctx context.Context, c *model.Cluster, q why.Question) (*why.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	return why.Explain(ctx, c, q)
}

// readManifest reads files of pods.
func readManifest(p *plugin, files []string) (*manifest.Reader, *manifest.Manifest, error) {
	namespace, only, err := p.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, nil, err
	}
	r := &manifest.Reader{Namespace: namespace, Only: only}
	for _, file := range files {
		data, err := manifest.Limits.ReadArgument(file, p.In)
		if err != nil {
			return nil, nil, cli.Usagef("read the pods of %s: %w", text.Foreign(file), err)
		}
		if err := r.Read(data); err != nil {
			return nil, nil, fmt.Errorf("read the pods of %s: %w", text.Foreign(file), yamlread.Shorten(err))
		}
	}
	for _, warning := range r.Warnings {
		text.Fprintf(p.ErrOut, "Warning: %s\n", warning)
	}
	m, err := r.Manifest()
	if err != nil {
		return nil, nil, fmt.Errorf("read the pods of %s: %w", text.Foreign(strings.Join(files, ", ")), err)
	}
	return r, m, nil
}

// args requires the name of one pod, or files.
func (w *whyAsker) args(cmd *cobra.Command, args []string) error {
	switch {
	case len(w.files) > 0 && len(args) > 0:
		return cli.Usagef("explain pod %s: name a pod of the cluster, or a file by -f", args[0])
	case len(w.files) == 0 && len(args) != 1:
		return cli.Usagef("name one pod, as in %s trainer-0, or a file by -f: there are %d names", cmd.CommandPath(),
			len(args))
	}
	return nil
}

// podName returns the name of a pod from the forms that kubectl accepts: NAME and pod/NAME.
func podName(arg string) (string, error) {
	kind, name, found := strings.Cut(arg, "/")
	switch {
	case !found:
		return arg, nil
	case kind == "pod" || kind == "pods" || kind == "po":
		return name, nil
	}
	return "", cli.Usagef("explain %q: want the name of a pod", arg)
}
