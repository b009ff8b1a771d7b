package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
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
-o name prints one name for each device that a CDI spec has, as podman, docker and nerdctl
take it with --device: the kernel's name if a spec has it, else another one.
cdi-gen devices -o name prints all names.`,
		Example: `  cdi-gen list
  cdi-gen list -o name
  cdi-gen list -o json | jq '.hcas[] | select(.protocol == "roce") | .ibdev'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := listWriters[output]
			if !ok {
				return cli.Usagef("--output %q: want table, json, yaml or name", output)
			}
			if err := checkKind(kind); err != nil {
				return err
			}
			snap, _, err := host.discover()
			if err != nil {
				return err
			}
			if output == "name" {
				return listNames(cmd, &host, snap, kind)
			}
			if err := write(cmd.OutOrStdout(), snap); err != nil {
				return fmt.Errorf("write list: %w", err)
			}
			return listed(snap)
		},
	}
	host.register(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "table", "`FORMAT`: table, json, yaml or name")
	cmd.Flags().StringVar(&kind, "kind", cdi.KindHCA, "CDI kind `VENDOR/CLASS` for -o name")
	return cmd
}

var listWriters = map[string]func(io.Writer, *rdma.Snapshot) error{
	"table": writeTable,
	"json":  func(w io.Writer, snap *rdma.Snapshot) error { return text.JSON(w, snap) },
	"yaml":  func(w io.Writer, snap *rdma.Snapshot) error { return text.YAML(w, snap) },
	"name":  nil, // listNames
}

// listed returns what the exit code of list says of the devices.
func listed(snap *rdma.Snapshot) error {
	if len(snap.Usable()) == 0 {
		return coded(exitNothing, errors.Join(lacking(snap), cdi.ErrNoDevices))
	}
	return partial(snap, lacking(snap))
}

// lacking returns an error for the kernel's nodes that /dev lacks, nil for none.
func lacking(snap *rdma.Snapshot) error {
	var names []string
	for _, n := range snap.Nodes() {
		if n.Missing {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s lacks nodes that the kernel has: %s", rdma.DevDir, text.Some(names, ", "))
}

// listNames prints, for each HCA, a name that a spec has and that gives this HCA. It says for which HCAs there is none.
func listNames(cmd *cobra.Command, host *hostFlags, snap *rdma.Snapshot, kind string) error {
	all, _, err := (&hostFlags{root: host.root}).discover() // a node may belong to an HCA that is not chosen
	if err != nil {
		return err
	}
	found := cdi.ReadRegistry(host.files(), cdi.StaticDir, cdi.DynamicDir)
	slots := cdi.NewSlots(all)
	var names, absent []string
	var p purposes
	for _, h := range snap.Usable() {
		if d := found.FindHCA(kind, h, slots); d == nil {
			absent = append(absent, h.IBDev)
		} else if p.fits(d, slots) {
			names = append(names, d.Name+"\n")
		}
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), strings.Join(names, "")); err != nil {
		return fmt.Errorf("write list: %w", err)
	}
	if len(absent) == 0 {
		return errors.Join(p.end(cmd), listed(snap))
	}
	err = fmt.Errorf("runtimes find no device of %s for %s in %s or %s; cdi-gen generate --kind %[1]s --to %[3]s "+
		"writes a spec, cdi-gen devices says what runtimes refuse", kind, text.Some(absent, ", "), cdi.StaticDir,
		cdi.DynamicDir)
	if len(names) == 0 {
		return coded(exitUnresolved, errors.Join(p.end(cmd), err))
	}
	return errors.Join(p.end(cmd), partial(snap, errors.Join(lacking(snap), err)))
}

func writeTable(w io.Writer, snap *rdma.Snapshot) error {
	var rows [][]string
	for i := range snap.HCAs {
		rows = append(rows, row(&snap.HCAs[i], snap.NetnsMode))
	}
	return text.Table(w, "IBDEV\tDEVICE\tPROTOCOL\tFUNCTION\tSTATE\tGBIT/S\tNETDEV\tNUMA\tNODES", rows)
}

// row returns a line of the table, with "" for an unknown value.
func row(h *rdma.HCA, mode rdma.NetnsMode) []string {
	var state, rate, netdev, numa string
	if p := h.Port1(); p != nil {
		state, netdev = string(p.State), p.Netdev
		if p.State == rdma.PortActive && p.RateMbps > 0 {
			rate = strconv.FormatFloat(float64(p.RateMbps)/1000, 'f', -1, 64)
		}
	}
	if f := h.DataFunction(); f != nil && f.NUMANode != nil {
		numa = strconv.Itoa(*f.NUMANode)
	}
	var nodes []string
	for _, n := range h.Nodes() {
		if !n.Missing {
			nodes = append(nodes, n.Name)
		}
	}
	switch err := h.Unusable(); {
	case h.Purpose == rdma.PurposeSwitchManager: // nobody gets its nodes
		nodes = []string{"none: manages NVSwitches (VPD: SMDL=" + h.Purpose + ")"}
	case err != nil:
		nodes = []string{"none: " + strings.TrimPrefix(err.Error(), "HCA "+h.IBDev+" ")}
	case mode == rdma.NetnsExclusive && len(nodes) > 0:
		nodes[len(nodes)-1] += " (only with the host's network: exclusive network namespace mode)"
	}
	return []string{h.IBDev, h.Name, string(h.Protocol), string(h.Function), state, rate, netdev, numa,
		strings.Join(nodes, ",")}
}
