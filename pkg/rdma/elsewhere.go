package rdma

import (
	"io/fs"
	"path"
)

// Elsewhere returns those of the given HCAs that are in another network namespace now,
// with the nodes that they have there. In exclusive mode the directory of an HCA goes with it, while its
// nodes stay visible to the whole host: class/infiniband_verbs knows no namespaces. All
// else is as it was given.
//
// The kernel's name of an HCA is unique among all namespaces. That the HCA is still the
// one of its slot is checked where the node has a slot.
func Elsewhere(sys fs.ReadLinkFS, known []HCA) []HCA {
	if len(known) == 0 || ReadNetnsMode(sys) != NetnsExclusive {
		return nil
	}
	nodes := listNodes(sys)
	var out []HCA
	for _, h := range known {
		r := &reader{sys: sys}
		if _, err := r.realpath(path.Join(classInfiniband, h.IBDev)); err == nil {
			continue // it, or another one of its name, is here
		}
		if h.Uverbs, h.MADs = nodes.of(h.IBDev); h.Uverbs == nil {
			continue
		}
		real, err := r.realpath(path.Join(classVerbs, h.Uverbs.Name))
		if err == nil && r.sameCarrier(&h, r.parentDevice(real)) == nil {
			out = append(out, h)
		}
	}
	return out
}
