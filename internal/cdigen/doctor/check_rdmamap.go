package doctor

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The kinds of findings, with their looks.
var (
	rdmamapDiffers = catalogue.Kind("rdmamap-differs", "rdmamap*")
	rdmamapAgrees  = catalogue.Kind("rdmamap-agrees", "rdmamap*")
)

// toCompare returns how many of n devices doctor compares: all of up to 64 devices, fewer of more, but at least 8.
// rdmamap reads every node of the host for each lookup, so comparing a thousand devices would take a minute.
func toCompare(n int) int { return min(n, max(8, 64*64/max(n, 1))) }

// checkRdmamap compares the snapshot with the devices that rdmamap finds. Other device plugins and CNI plugins
// rely on rdmamap.
func checkRdmamap(f *facts, out *findings) {
	var theirs []string
	err := f.host.NoSecondOpinion
	if f.host.SecondOpinion != nil {
		theirs, err = f.host.SecondOpinion.Devices()
	}
	if err != nil {
		f.host.unseen["rdmamap"] = err
		return
	}
	var ours []string
	for _, h := range f.snap.HCAs {
		ours = append(ours, h.IBDev)
	}
	differences := difference("RDMA devices", ours, theirs)
	compared := f.snap.HCAs[:toCompare(len(ours))]
	for i := range compared {
		if h := &compared[i]; slices.Contains(theirs, h.IBDev) {
			differences = append(differences, f.host.compareNodes(h)...)
		}
	}
	if left := len(ours) - len(compared); left > 0 {
		f.host.unseen[fmt.Sprintf("rdmamap: nodes of %d of %d devices", left, len(ours))] =
			errors.New("rdmamap reads every node of the host again for each device, so only some are compared")
	}
	switch {
	case len(differences) > 0:
		out.add(rdmamapDiffers.Found(finding.Warning, "rdmamap finds other devices or nodes than cdi-gen").
			Because("%s. Device plugins that use rdmamap give containers other devices", text.Some(differences, "; ")).
			See("cdi-gen list -o json"))
	case len(ours) > 0:
		out.add(rdmamapAgrees.Found(finding.OK, "rdmamap finds the same "+text.Count(len(ours), "device")+" and nodes"))
	}
}

// compareNodes compares the nodes of an HCA. It ignores rdma_cm: rdmamap looks for it in /dev, as checkNodes does.
func (r *reader) compareNodes(h *rdma.HCA) []string {
	theirs, err := r.SecondOpinion.CharDevices(h.IBDev)
	if err != nil {
		r.unseen["rdmamap: nodes of "+h.IBDev] = err
		return nil
	}
	theirs = without(theirs, []string{rdma.DevDir + "/" + string(rdma.NodeRDMACM)})
	var ours []string
	for _, n := range nodesOf(h) {
		ours = append(ours, n.Path())
	}
	return difference("nodes of "+h.IBDev, ours, theirs)
}

// difference describes how two lists differ. It ignores their order.
func difference(what string, ours, theirs []string) []string {
	var out []string
	if only := without(ours, theirs); len(only) > 0 {
		out = append(out, fmt.Sprintf("%s that only cdi-gen finds: %s", what, text.Some(only, ", ")))
	}
	if only := without(theirs, ours); len(only) > 0 {
		out = append(out, fmt.Sprintf("%s that only rdmamap finds: %s", what, text.Some(only, ", ")))
	}
	return out
}

// without returns the elements of a that are not in b, sorted.
func without(a, b []string) []string {
	out := slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
	slices.Sort(out)
	return out
}
