package doctor

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// toCompare is for how many of n devices the nodes are compared: all, up to 64.
// rdmamap reads every node of the host for each device it is asked about, so at a
// thousand it would take a minute to ask about all.
func toCompare(n int) int { return min(n, max(8, 64*64/max(n, 1))) }

// checkSecondOpinion compares our view of the devices with that of rdmamap. Other device plugins and CNI plugins rely
// on rdmamap.
func checkSecondOpinion(f *facts) []Finding {
	if f.SecondOpinion == nil {
		if f.NoSecondOpinion != nil {
			f.blind("rdmamap", f.NoSecondOpinion)
		}
		return nil
	}
	theirs, err := f.SecondOpinion.Devices()
	if err != nil {
		f.blind("rdmamap", err)
		return nil
	}
	var ours []string
	for _, h := range f.snap.HCAs {
		ours = append(ours, h.IBDev)
	}
	differences := difference("RDMA devices", ours, theirs)
	compared := f.snap.HCAs[:toCompare(len(ours))]
	for i := range compared {
		if h := &compared[i]; slices.Contains(theirs, h.IBDev) {
			differences = append(differences, f.compareNodes(h)...)
		}
	}
	if left := len(ours) - len(compared); left > 0 {
		f.blind(fmt.Sprintf("rdmamap: nodes of %d of %d devices", left, len(ours)), errors.New("rdmamap reads every node of the host again for each device, so only some are compared"))
	}
	if len(differences) > 0 {
		return []Finding{found(RDMAMapDiffers, Warning, "rdmamap sees other devices or nodes than we do").
			because("%s. Device plugins that go by rdmamap give something else to containers", shorten(differences, "; ")).
			fix("cdi-gen list -o json")}
	}
	if len(ours) == 0 {
		return nil
	}
	return []Finding{found(RDMAMapAgrees, OK, "rdmamap finds the same "+plural(len(ours), "device")+" and nodes")}
}

// compareNodes leaves rdma_cm out: rdmamap looks for it in /dev, which checkNodes
// does as well.
func (f *facts) compareNodes(h *rdma.HCA) []string {
	theirs, err := f.SecondOpinion.CharDevices(h.IBDev)
	if err != nil {
		f.blind("rdmamap: nodes of "+h.IBDev, err)
		return nil
	}
	theirs = slices.DeleteFunc(slices.Clone(theirs), func(path string) bool { return path == rdma.DevDir+"/"+string(rdma.NodeRDMACM) })
	var ours []string
	if h.Uverbs != nil {
		ours = append(ours, h.Uverbs.Path())
	}
	for _, n := range h.MADs {
		ours = append(ours, n.Path())
	}
	return difference("nodes of "+h.IBDev, ours, theirs)
}

// difference words how two lists differ, order apart.
func difference(what string, ours, theirs []string) []string {
	var out []string
	if only := without(ours, theirs); len(only) > 0 {
		out = append(out, fmt.Sprintf("%s that only we see: %s", what, shorten(only, ", ")))
	}
	if only := without(theirs, ours); len(only) > 0 {
		out = append(out, fmt.Sprintf("%s that only rdmamap sees: %s", what, shorten(only, ", ")))
	}
	return out
}

// without lists what is in a and not in b, sorted.
func without(a, b []string) []string {
	out := slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
	slices.Sort(out)
	return out
}
