// Package devicename knows how the devices of a pool are called.
//
// An HCA has a name made from its slot ([rdma.Identity.Name]), which begins with
// "pci-" or "soft-". The pool can hold more than one device for it:
//
//	pci-0000-3b-00-0           the HCA for one claim alone
//	shared-pci-0000-3b-00-0    the HCA for many claims, a share for each
//	group-all                  several HCAs at once, for many claims
//
// The prefixes make the names of different devices different. A name stands in
// allocated claims, so it never changes its meaning.
package devicename

import "strings"

const (
	sharedPrefix = "shared-"
	groupPrefix  = "group-"
)

// Name is a device name taken apart: either HCA or Group is set.
type Name struct {
	HCA    string // the name of the HCA
	Shared bool   // the HCA for many claims
	Group  string // the name of the group
}

// Shared returns the name of the device that many claims share an HCA by.
func Shared(hca string) string { return sharedPrefix + hca }

// Group returns the name of the device that stands for a group of HCAs.
func Group(group string) string { return groupPrefix + group }

// Parse takes a device name apart. Whatever has no prefix is an HCA.
func Parse(device string) Name {
	if hca, ok := strings.CutPrefix(device, sharedPrefix); ok {
		return Name{HCA: hca, Shared: true}
	}
	if group, ok := strings.CutPrefix(device, groupPrefix); ok {
		return Name{Group: group}
	}
	return Name{HCA: device}
}

// String returns the device name.
func (n Name) String() string {
	switch {
	case n.Group != "":
		return Group(n.Group)
	case n.Shared:
		return Shared(n.HCA)
	}
	return n.HCA
}
