package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func newList() *cobra.Command {
	var host hostFlags
	var output, kind string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the RDMA devices of this host",
		Long: `Show the RDMA devices of this host, also those that a container cannot have, with the
reason under NODES.
-o name prints the names that podman, docker and nerdctl take with --device.`,
		Example: `  cdi-gen list
  cdi-gen list -o name
  cdi-gen list -o json | jq '.hcas[] | select(.protocol == "roce") | .ibdev'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := listWriters[output]
			if !ok {
				return usagef("--output %q: want table, json, yaml or name", output)
			}
			if err := checkKind(kind); err != nil {
				return err
			}
			snap, _, err := host.discover(cmd.Context())
			if err != nil {
				return err
			}
			if err := write(cmd.OutOrStdout(), snap, kind); err != nil {
				return fmt.Errorf("write list: %w", err)
			}
			if len(snap.Usable()) == 0 {
				return coded{exitNothing, cdi.ErrNoDevices}
			}
			return partial(snap, nil)
		},
	}
	host.register(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "table", "`FORMAT`: table, json, yaml or name")
	cmd.Flags().StringVar(&kind, "kind", cdi.KindHCA, "CDI kind `VENDOR/CLASS` for -o name")
	return cmd
}

var listWriters = map[string]func(io.Writer, *rdma.Snapshot, string) error{
	"table": writeTable,
	"json":  func(w io.Writer, snap *rdma.Snapshot, _ string) error { return text.JSON(w, snap) },
	"yaml":  func(w io.Writer, snap *rdma.Snapshot, _ string) error { return text.YAML(w, snap) },
	"name":  writeNames,
}

func writeNames(w io.Writer, snap *rdma.Snapshot, kind string) error {
	var errs []error
	for _, h := range snap.Usable() {
		_, err := fmt.Fprintln(w, text.Terminal(cdi.Qualified(kind, h.IBDev)))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func writeTable(w io.Writer, snap *rdma.Snapshot, _ string) error {
	if len(snap.HCAs) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "IBDEV\tDEVICE\tPROTOCOL\tFUNCTION\tSTATE\tGBIT/S\tNETDEV\tNUMA\tNODES")
	for i := range snap.HCAs {
		h := &snap.HCAs[i]
		fmt.Fprintln(tw, strings.Join(text.Cells(row(h, snap.NetnsMode)...), "\t"))
	}
	return tw.Flush()
}

// row returns a line of the table. A dash stands for an unknown value.
func row(h *rdma.HCA, mode rdma.NetnsMode) []string {
	state, rate, netdev, numa := "-", "-", "-", "-"
	if p := h.Port1(); p != nil {
		state, netdev = dash(string(p.State)), dash(p.Netdev)
		if p.State == rdma.PortActive && p.RateMbps > 0 {
			rate = strconv.FormatFloat(float64(p.RateMbps)/1000, 'f', -1, 64)
		}
	}
	if f := h.DataFunction(); f != nil && f.NUMANode != nil {
		numa = strconv.Itoa(*f.NUMANode)
	}
	var nodes []string
	if h.Uverbs != nil {
		nodes = append(nodes, h.Uverbs.Name)
	}
	if h.PSM != nil {
		nodes = append(nodes, h.PSM.Name)
	}
	for _, n := range h.MADs {
		nodes = append(nodes, n.Name)
	}
	switch err := h.Unusable(); {
	case h.Purpose == rdma.PurposeSwitchManager: // nobody gets its nodes
		nodes = []string{"none: manages NVSwitches (VPD: SMDL=" + h.Purpose + ")"}
	case err != nil:
		nodes = []string{"none: " + strings.TrimPrefix(err.Error(), "HCA "+h.IBDev+" ")}
	case mode == rdma.NetnsExclusive && len(nodes) > 0:
		nodes[len(nodes)-1] += " (only with the host's network: exclusive network namespace mode)"
	}
	return []string{h.IBDev, h.Name, dash(string(h.Protocol)), string(h.Function), state, rate, netdev, numa,
		dash(strings.Join(nodes, ","))}
}

func dash(s string) string { return cmp.Or(s, "-") }
