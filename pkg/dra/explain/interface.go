package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rdma-dev/dra-driver-rdma/internal/quote"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Interface is the network interface that claims can have of an HCA.
type Interface struct {
	// Netdev is its name on the host, "" if there is none.
	Netdev string `json:"netdev,omitempty"`
	// Modes are those in which claims can have it, and Refused says of the others why not.
	Modes   []string          `json:"modes"`
	Refused map[string]string `json:"refused,omitempty"`
}

// AddInterfaces adds the interfaces of what is published. ask returns the interface of an HCA, and why the
// host does not give it in a mode: what Prepare would say.
func (r *Report) AddInterfaces(snap *rdma.Snapshot, ask func(h *rdma.HCA, mode string) (netdev string, err error)) {
	for i := range r.HCAs {
		h := &r.HCAs[i]
		if hca := snap.Lookup(h.Name); hca != nil && len(h.Devices) > 0 {
			h.Interface = h.interfaceOf(func(mode string) (string, error) { return ask(hca, mode) })
		}
	}
}

func (h *HCA) interfaceOf(ask func(mode string) (netdev string, err error)) *Interface {
	alone := slices.ContainsFunc(h.Devices, func(d Device) bool { return d.Name == h.Name })
	resourceName, _ := h.Attributes[string(resources.AttributeResourceName)].(string)
	out := &Interface{Modes: []string{}}
	for _, mode := range []string{v1alpha1.NetworkMacvlan, v1alpha1.NetworkMove} {
		netdev, err := ask(mode)
		out.Netdev = netdev
		if refused := plan.ModeRefused(mode, alone, resourceName); refused != nil {
			err = refused
		}
		if err == nil {
			out.Modes = append(out.Modes, mode)
			continue
		}
		if out.Refused == nil {
			out.Refused = map[string]string{}
		}
		out.Refused[mode] = err.Error()
	}
	return out
}

// interfaceTable writes which interface claims can have of each HCA in which mode.
func (r *Report) interfaceTable(w io.Writer, n *notes) error {
	if !slices.ContainsFunc(r.HCAs, func(h HCA) bool { return h.Interface != nil }) {
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "\nIBDEV\tHCA\tINTERFACE\tMACVLAN\tMOVE\tNOTE")
	for _, h := range r.HCAs {
		i := h.Interface
		if i == nil {
			continue
		}
		row := []string{h.IBDev, h.Name, dash(i.Netdev)}
		for _, mode := range []string{v1alpha1.NetworkMacvlan, v1alpha1.NetworkMove} {
			row = append(row, yesNo(slices.Contains(i.Modes, mode)))
		}
		row = append(row, n.number(i.Refused[v1alpha1.NetworkMacvlan], i.Refused[v1alpha1.NetworkMove]))
		fmt.Fprintln(tw, strings.Join(quote.Cells(row...), "\t"))
	}
	return tw.Flush()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
