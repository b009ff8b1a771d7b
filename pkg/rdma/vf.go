package rdma

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// vfTable holds the index of each VF, by PF and VF address. It reads the links of a PF when they are first
// needed.
type vfTable map[string]map[string]*int

// index returns K of the PF's link virtfnK to the VF, nil if there is none.
func (t vfTable) index(sys fs.ReadLinkFS, pf, vf string) *int {
	vfs, ok := t[pf]
	if !ok {
		vfs = readVFLinks(sys, pf)
		t[pf] = vfs
	}
	return vfs[vf]
}

func readVFLinks(sys fs.ReadLinkFS, pf string) map[string]*int {
	r := &reader{sys: sys}
	vfs := map[string]*int{}
	dir, err := r.realpath("bus/pci/devices/" + pf)
	if err != nil {
		return vfs
	}
	for _, name := range r.list(dir) {
		if num, ok := strings.CutPrefix(name, "virtfn"); ok {
			if k, err := strconv.Atoi(num); err == nil {
				vfs[r.link(path.Join(dir, name))] = &k
			}
		}
	}
	return vfs
}
