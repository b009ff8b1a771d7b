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

// Node is what a plan takes from the node that it is made on.
type Node struct {
	// Pool is the name of the node's pool.
	Pool string
	Site Site
	// FilesDir is where files of claims are, for their containers.
	FilesDir string
	// MetadataDir is where files about the devices of claims are, "" for none.
	MetadataDir string
	// Members returns the names of the HCAs of a group; nil on a node without groups.
	Members func(group string) ([]string, error)
	// Card returns the names of the HCAs of whose card an HCA is a VF or SF; nil on a node where
	// the two can be had side by side.
	Card func(hca string) []string
	// Networks is what the node does for the interfaces of claims, nil for nothing.
	Networks *Networks
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

// As returns the node as it was when a plan was made, so that a claim that is
// prepared once more gets what its running containers have. Nil changes nothing.
func (n Node) As(made *Plan) Node {
	if made == nil {
		return n
	}
	if made.Site != nil {
		n.Site = *made.Site
	}
	n.MetadataDir = ""
	if made.Metadata != nil {
		n.MetadataDir = filepath.Dir(made.Metadata.Dir)
	}
	now := n
	n.Members = func(group string) ([]string, error) {
		for _, d := range made.Devices {
			if d.Device == devicename.Group(group) {
				return d.Members, nil
			}
		}
		return now.members(group)
	}
	n.Networks = n.Networks.as(made)
	// A claim that was prepared beside the user of its card stays so.
	n.Card = func(hca string) []string {
		for _, d := range made.Devices {
			if slices.Contains(d.HCAs(), hca) {
				return d.Cards
			}
		}
		return nil
	}
	return n
}

// cards returns the cards that a device is a part of.
func (n Node) cards(d Device) []string {
	if n.Card == nil {
		return nil
	}
	var names []string
	for _, hca := range d.HCAs() {
		names = append(names, n.Card(hca)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var errNoGroup = errors.New("this node has no such group of HCAs now: the driver's configuration no longer names it, or its HCAs are given to claims of their own")

// members resolves a group. Its HCAs are sorted, so that they are locked in the
// same order by everyone.
func (n Node) members(group string) ([]string, error) {
	if n.Members == nil {
		return nil, fmt.Errorf("device %s: %w", devicename.Group(group), errNoGroup)
	}
	names, err := n.Members(group)
	if err == nil && len(names) == 0 {
		err = errNoGroup
	}
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", devicename.Group(group), err)
	}
	return slices.Sorted(slices.Values(names)), nil
}
