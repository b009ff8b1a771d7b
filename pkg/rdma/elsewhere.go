package rdma

import (
	"io/fs"
	"path"
)

// Elsewhere returns the known HCAs that are in another network namespace now, each with its
// current nodes. All other fields keep their values.
//
// In exclusive mode, the kernel moves the directory of an HCA with it. The HCA's nodes stay visible to the
// whole host, because class/infiniband_verbs is not per namespace. An HCA's kernel name is unique among all
// namespaces. The function also checks that the node still belongs to the slot of the HCA.
func Elsewhere(sys fs.ReadLinkFS, known []HCA) []HCA {
	if len(known) == 0 || ReadNetnsMode(sys) != NetnsExclusive {
		return nil
	}
	nodes := listNodes(sys)
	var out []HCA
	for _, h := range known {
		r := &reader{sys: sys}
		if _, err := r.realpath(path.Join(classInfiniband, h.IBDev)); err == nil {
			continue // this HCA, or another one with its name, is in the host's namespace
		}
		if h.Uverbs, h.MADs = nodes.nodesOf(h.IBDev); h.Uverbs == nil {
			continue
		}
		real, err := r.realpath(path.Join(classVerbs, h.Uverbs.Name))
		if err == nil && r.sameCarrier(&h, r.parentDevice(real)) == nil {
			out = append(out, h)
		}
	}
	return out
}
