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

// Facts are the data of the node from which a plan is made.
type Facts struct {
	// Pool is the name of the node's pool.
	Pool string
	Site Site
	// FilesDir is the directory on the host for the files of claims, which containers mount.
	FilesDir string
	// MetadataDir is the directory for files about the devices of claims, "" for none.
	MetadataDir string
	// Groups has the names of the HCAs of each published group, by the name of the group.
	Groups map[string][]string
	// Cards has, for each VF or SF, the names of the HCAs of its card. It is nil if the site lets claims use a card and
	// its parts at the same time.
	Cards map[string][]string
	// Marks has the marks of packets that rules of the node's policy give, by the name of the HCA.
	Marks map[string]v1alpha1.Marks
	// Networks is the node's support for network interfaces, nil for none.
	Networks *Networks

	// Refused is the reason why the node prepares no new claim, nil for none.
	Refused error

	made *Plan // the plan of an earlier Prepare of the claim
}

// Site is what the node's administrator gives to every claim of the node.
type Site struct {
	// Memlock is the locked memory limit of a claim without one, in the notation of the API.
	Memlock v1alpha1.Memlock `json:"memlock"`
	// Env has NAME=VALUE settings for every container that uses the claim. Mounts are files of the host for these
	// containers.
	Env    []string    `json:"env,omitempty"`
	Mounts []cdi.Mount `json:"mounts,omitempty"`
}

// DefaultSite returns the Site of a node without configuration.
func DefaultSite() Site { return Site{Memlock: v1alpha1.MemlockUnlimited} }

// WithPrepared returns the facts that an existing plan was made from. So a claim that is prepared again gets the same
// as its running containers. A nil plan changes nothing.
func (f Facts) WithPrepared(made *Plan) Facts {
	if made == nil {
		return f
	}
	f.made, f.Refused = made, nil
	if made.Site != nil {
		f.Site = *made.Site
	}
	f.MetadataDir = ""
	if made.Metadata != nil {
		f.MetadataDir = filepath.Dir(made.Metadata.Dir)
	}
	f.Networks = f.Networks.withPrepared(made)
	return f
}

// madeDevice returns a device as the existing plan of its claim has it, the zero value if no plan has it.
func madeDevice(made *Plan, d Device) (as Device) {
	if made == nil {
		return as
	}
	same := func(m Device) bool { return m.Device == d.Device && m.Request == d.Request }
	if i := slices.IndexFunc(made.Devices, same); i >= 0 {
		as = made.Devices[i]
	}
	return as
}

// cards returns the names of the HCAs of the cards that a device is a part of. A claim that was prepared before keeps
// the cards of its existing plan, and may so stay beside the only user of its card.
func (f Facts) cards(d Device) []string {
	var names []string
	for _, hca := range d.HCAs() {
		if f.made == nil {
			names = append(names, f.Cards[hca]...)
			continue
		}
		has := func(m Device) bool { return slices.Contains(m.HCAs(), hca) }
		if i := slices.IndexFunc(f.made.Devices, has); i >= 0 {
			names = append(names, f.made.Devices[i].Cards...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var errNoGroup = errors.New("this node has no such group of HCAs now: " +
	"the driver's policy no longer names it, or its HCAs are given to claims of their own")

// members returns the names of the HCAs of a group, sorted. All drivers lock HCAs in this order. An existing plan keeps
// its members.
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
