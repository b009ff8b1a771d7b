package plan

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
)

// Facts are what a plan takes from the node that it is made on.
type Facts struct {
	// Pool is the name of the node's pool.
	Pool string
	Site Site
	// FilesDir is where files of claims are, for their containers.
	FilesDir string
	// MetadataDir is where files about the devices of claims are, "" for none.
	MetadataDir string
	// Groups are the names of the HCAs of each published group.
	Groups map[string][]string
	// Cards are, for a VF or SF, the names of the HCAs of its card. It is nil where the site lets claims have both.
	Cards map[string][]string
	// Networks is what the node does for the interfaces of claims, nil for nothing.
	Networks *Networks

	made *Plan // the claim as it was prepared before
}

// Site is what the node's administrator gives to every claim of the node.
type Site struct {
	// Memlock is the locked memory limit of a claim that says nothing, as the API
	// words it.
	Memlock v1alpha1.Memlock `json:"memlock"`
	// Env are NAME=VALUE settings of every container that uses the claim, and Mounts
	// what it gets of the host's files.
	Env    []string    `json:"env,omitempty"`
	Mounts []cdi.Mount `json:"mounts,omitempty"`
}

// DefaultSite is what a node gives whose administrator says nothing.
func DefaultSite() Site { return Site{Memlock: v1alpha1.MemlockUnlimited} }

// As returns the facts as they were when a plan was made, so that a claim that is prepared once more gets what its
// running containers have. A nil plan changes nothing.
func (f Facts) As(made *Plan) Facts {
	if made == nil {
		return f
	}
	f.made = made
	if made.Site != nil {
		f.Site = *made.Site
	}
	f.MetadataDir = ""
	if made.Metadata != nil {
		f.MetadataDir = filepath.Dir(made.Metadata.Dir)
	}
	f.Networks = f.Networks.as(made)
	return f
}

// cards returns the names of the HCAs of the cards that a device is a part of. A claim that was prepared beside the
// user of its card stays so.
func (f Facts) cards(d Device) []string {
	var names []string
	for _, hca := range d.HCAs() {
		if f.made == nil {
			names = append(names, f.Cards[hca]...)
		} else if i := slices.IndexFunc(f.made.Devices, func(m Device) bool { return slices.Contains(m.HCAs(), hca) }); i >= 0 {
			names = append(names, f.made.Devices[i].Cards...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var errNoGroup = errors.New("this node has no such group of HCAs now: the driver's configuration no longer names it, or its HCAs are given to claims of their own")

// members resolves a group. Its HCAs are sorted, so that everyone locks them in the same order.
func (f Facts) members(group string) ([]string, error) {
	names := f.Groups[group]
	if f.made != nil {
		for _, d := range f.made.Devices {
			if d.Device == devicename.Group(group) {
				names = d.Members
			}
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("device %s: %w", devicename.Group(group), errNoGroup)
	}
	return slices.Sorted(slices.Values(names)), nil
}
