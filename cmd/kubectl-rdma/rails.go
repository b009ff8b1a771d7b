package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/manifest"
)

func newRails(p *plugin) *cobra.Command {
	var files []string
	var only []int64
	cmd := &cobra.Command{
		Use:   "rails -f FILE",
		Short: "Write into the claims of a job that all its pods get HCAs on the same rails",
		Long: `Write the files to standard output, with a selector in each request for HCAs: a pod with
4 HCAs gets those of 4 rails, and one with 2 those of the first 2 of these. So all pods of
a job, or prefill and decode, can talk where rails have no connection.

It chooses the rails whose HCAs the fewest claims have. For several jobs on the same
nodes, name other rails for each. Comments and the order of fields stay, and nothing is
created. It refuses a ResourceClaimTemplate that would not bind its pods to these rails.

To see whether each pod fits: kubectl rdma rails -f job.yaml | kubectl rdma why -f -`,
		Example: `  kubectl rdma rails -f job.yaml | kubectl apply -f -
  kubectl rdma rails -f prefill.yaml -f decode.yaml --rails=4,5,6,7 >serve.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return cli.Usagef("name a file with the job by -f, as in %s -f job.yaml", cmd.CommandPath())
			}
			return writeRails(cmd.Context(), p, files, only)
		},
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "`FILE` with pods and their claims, - for standard input "+
		"(repeatable)")
	cmd.Flags().Int64SliceVar(&only, "rails", nil, "`RAILS` to choose from instead of all: numbers, "+
		"a comma-separated list")
	return cmd
}

func writeRails(ctx context.Context, p *plugin, files []string, only []int64) error {
	reader, m, err := readManifest(p, files)
	if err != nil {
		return err
	}
	kinds := []collect.Kind{collect.Classes, collect.Claims}
	beside := func(pod manifest.PlannedPod) bool { return len(m.TemplatesBeside(&pod)) > 0 }
	if slices.ContainsFunc(m.Pods, beside) { // they may be of other drivers
		kinds = append(kinds, collect.Templates)
	}
	c, err := p.read(ctx, collect.Reader{}, collect.Slices, kinds...)
	if err != nil {
		return err
	}
	m.AddTo(c)
	rails, err := m.SetRails(ctx, c.View(), only)
	var out []byte
	if err == nil {
		out, err = reader.Write()
	}
	if err != nil {
		return fmt.Errorf("write rails into %s: %w", text.Foreign(strings.Join(files, ", ")), err)
	}
	text.Fprintf(p.ErrOut, "HCAs on rails: %s\n", manifest.Numbers(rails))
	_, err = text.Unwrap(p.Out).Write(out) // the text of the files, for kubectl
	return err
}
