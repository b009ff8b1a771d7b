package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
)

func newWhy(p *plugin) *cobra.Command {
	var o *output
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "why POD",
		Short: "Explain why a pod does not get its devices, or does not start with them",
		Long: `Explain why a pod waits for its devices: which selector, taint, claim, capacity or
counter rules out which device, and which change would help. It asks the scheduler's
own allocator, with one change at a time.

If the pod has its devices and does not start, it shows what the kubelet and the driver
say, and what is wrong with the devices.

It explains the devices of all drivers. For CPU, memory and all else, read the line "The
scheduler says".

` + whyCodes.Help(),
		Example: `  kubectl rdma why trainer-0
  kubectl rdma why trainer-0 -o wide
  kubectl rdma why trainer-0 -o jsonpath='{.verdict}{"\n"}'`,
		Args:              onePod,
		ValidArgsFunction: p.completer(p.podNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := podName(args[0])
			if err != nil {
				return err
			}
			client, err := p.client()
			if err != nil {
				return err
			}
			namespace, err := p.namespace()
			if err != nil {
				return err
			}
			cluster, question, err := collect.Reader{Client: client}.Pod(cmd.Context(), namespace, name)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), limit)
			defer cancel()
			answer, err := cluster.Why(ctx, question)
			if err != nil {
				return err
			}
			if o.printer != nil {
				return o.object("Explanation", answer)
			}
			return answer.WriteText(p.Out, o.format == "wide")
		},
	}
	o = p.output(cmd, "text", "wide")
	cmd.Flags().DurationVar(&limit, "search-time", 20*time.Second, "how long to look for changes that would help")
	return cmd
}

// onePod requires exactly one argument, the name of a pod.
func onePod(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one pod, as in %s trainer-0: there are %d names", cmd.CommandPath(), len(args))
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
	return "", fmt.Errorf("explain %q: want the name of a pod", arg)
}
