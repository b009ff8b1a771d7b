package main

import (
	"errors"
	"fmt"
	"io"

	"k8s.io/cli-runtime/pkg/printers"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

// exitMiswired means that an HCA is not connected as planned. exitIncomplete means that it is not known of one.
const exitMiswired = 2

var topologyCodes = exitcode.List{
	exitOK: "done, also if there is nothing to show", exitError: "failed",
	exitMiswired:   "--check: an HCA is not connected as planned",
	exitIncomplete: "--check: no HCA is connected otherwise, but a planned one publishes no leaf switch",
}

// readPlan reads a LinkTable, nil for no file.
func readPlan(path string, stdin io.Reader) (*v1alpha1.LinkTable, error) {
	if path == "" {
		return nil, nil
	}
	data, err := yamlread.Table.ReadArgument(path, stdin)
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	var table v1alpha1.LinkTable
	if err := yamlread.Table.Decode(data, &table); err != nil {
		return nil, fmt.Errorf("read the plan %q: %w", path, yamlread.PositionsOf(data).Explain(err))
	}
	if err := table.Check(true); err != nil {
		return nil, fmt.Errorf("read the plan %q: %w", path, err)
	}
	return &table, nil
}

// wiring prints the HCAs that are not connected as planned.
func (o *output) wiring(w lists.Wiring) (err error) {
	switch {
	case o.printer != nil:
		err = o.object("Wiring", map[string]any{
			"differences": w.Differences, "unseen": append([]string{}, w.Unseen...), "agreed": w.Agreed,
		})
	case o.format == "svg":
		return errors.New("an SVG shows one node: leave --cluster out, and name a node")
	case len(w.Differences) > 0:
		printer := printers.NewTablePrinter(printers.PrintOptions{})
		err = printer.PrintObj(lists.WiringTable(w.Differences), o.p.Out)
	}
	if err != nil {
		return err
	}
	text.Fprintf(o.p.ErrOut, "%s connected as planned, %d otherwise, %d unknown\n",
		text.Count(w.Agreed, "HCA"), len(w.Differences), len(w.Unseen))
	switch {
	case len(w.Differences) > 0:
		return &codedError{errors.New("the wiring is not as planned"), exitMiswired}
	case len(w.Unseen) > 0:
		return &codedError{fmt.Errorf("no leaf switch is published of %s", text.Some(w.Unseen, ", ")), exitIncomplete}
	}
	return nil
}
