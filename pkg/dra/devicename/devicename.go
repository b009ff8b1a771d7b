// Package devicename has the names of a pool's devices.
//
// An HCA has a name made from its slot ([rdma.Identity.Name]), which begins with
// "pci-" or "soft-". The pool can have more than one device for it:
//
//	pci-0000-3b-00-0           the HCA for one claim
//	shared-pci-0000-3b-00-0    the HCA for many claims, with a share for each
//	group-all                  several HCAs at once, for many claims
//
// The prefixes make the names of different devices different. Allocations contain these
// names, so a name never changes its meaning.
package devicename

import "strings"

const (
	sharedPrefix = "shared-"
	groupPrefix  = "group-"
)

// Name is a parsed device name: either HCA or Group is set.
type Name struct {
	HCA    string // the name of the HCA
	Shared bool   // the HCA for many claims
	Group  string // the name of the group
}

// Shared returns the name of the shared device of an HCA.
func Shared(hca string) string { return sharedPrefix + hca }

// Group returns the name of the device of a group of HCAs.
func Group(group string) string { return groupPrefix + group }

// Parse parses a device name. A name without a prefix is an HCA.
func Parse(device string) Name {
	if hca, ok := strings.CutPrefix(device, sharedPrefix); ok {
		return Name{HCA: hca, Shared: true}
	}
	if group, ok := strings.CutPrefix(device, groupPrefix); ok {
		return Name{Group: group}
	}
	return Name{HCA: device}
}
