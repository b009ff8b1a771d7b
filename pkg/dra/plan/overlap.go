package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
)

// InUseError means that another claim has a device.
type InUseError struct {
	// Holder is the recorded plan of the other claim.
	Holder *Plan

	what, why string
}

// Error implements error.
func (e InUseError) Error() string { return e.what + ": " + e.why }

// Because returns the error with another text for why the holder has the device, and what to do.
func (e InUseError) Because(why string) InUseError {
	e.why = why
	return e
}

// Earlier returns the error of a claim with a new allocation while its record is still that of an earlier allocation.
func (p *Plan) Earlier() InUseError {
	return InUseError{
		Holder: p,
		what:   fmt.Sprintf("%s is in use by an earlier allocation of the claim (%s)", strings.Join(p.HCAs(), ", "), p.UID),
		why:    "the claim was read before it was allocated these devices; the kubelet tries again",
	}
}

// Overlap returns an InUseError if two plans use one HCA and exclude each other, because at least one is its only user,
// or because their network interfaces cannot be on it at the same time.
// Shares of an HCA, groups with the HCA, and access for monitoring do not exclude each other. The scheduler keeps
// claims apart. This check is the last protection against its mistakes.
//
// If the site has partitioning (Facts.Cards), the only user of a PF also excludes users of the PF's VFs and SFs, as the
// published counters do. The check is needed because the API server may have dropped the counters, and the scheduler
// may not know that yet.
func (p *Plan) Overlap(other *Plan) error {
	if p.UID == other.UID {
		return nil
	}
	for _, a := range p.Devices {
		for _, b := range other.Devices {
			hca, both := common(a.HCAs(), b.HCAs())
			if both && a.excludes(b) {
				return InUseError{
					Holder: other,
					what:   fmt.Sprintf("device %s is in use by claim %s (%s)%s", a.Device, other.Claim(), other.UID, through(hca, a, b)),
					why:    "two claims were given one device; delete the pod of one of them",
				}
			}
			if why := a.conflict(b); both && why != "" {
				return InUseError{
					Holder: other,
					what: fmt.Sprintf("HCA %s is in use by claim %s (%s) with another kind of network",
						hca, other.Claim(), other.UID),
					why: why,
				}
			}
			if a.cardOf(b) || b.cardOf(a) {
				return InUseError{
					Holder: other,
					what:   fmt.Sprintf("device %s is on one card with device %s, which claim %s (%s) has", a.Device, b.Device, other.Claim(), other.UID),
					why:    "the site lets nobody have a whole card beside its VFs and SFs (partitioning); delete the pod of one of the two claims",
				}
			}
		}
	}
	return nil
}

// cardOf reports whether the device gives one claim alone the card that the other device is a part of.
func (d Device) cardOf(part Device) bool {
	if d.AdminAccess || part.AdminAccess || !d.alone() {
		return false
	}
	_, is := common(d.HCAs(), part.Cards)
	return is
}

// through returns the part of a message that names the HCA through which two devices collide. It returns "" if the
// devices have the same name.
func through(hca string, a, b Device) string {
	if a.Device == b.Device {
		return ""
	}
	return fmt.Sprintf(", which has HCA %s as device %s", hca, b.Device)
}

func common(a, b []string) (string, bool) {
	for _, name := range a {
		if slices.Contains(b, name) {
			return name, true
		}
	}
	return "", false
}

// Lock is an HCA that a plan uses or depends on.
type Lock struct {
	HCA string
	// Shared means that plans with this lock do not exclude each other: they have a share of the HCA with the usual
	// network, or a VF or SF of its card.
	Shared bool
}

// Locks returns the HCAs that a plan must lock, sorted by name, each once. Two plans that exclude each other have a
// lock in common, and at least one of them holds it unshared. Access for monitoring excludes nothing, and locks
// nothing.
func (p *Plan) Locks() []Lock {
	alone := map[string]bool{}
	for _, d := range p.Devices {
		if d.AdminAccess {
			continue
		}
		for _, name := range d.HCAs() {
			alone[name] = alone[name] || d.ShareID == nil || d.excludesShares()
		}
		for _, name := range d.Cards {
			if _, known := alone[name]; !known {
				alone[name] = false
			}
		}
	}
	locks := make([]Lock, 0, len(alone))
	for _, name := range slices.Sorted(maps.Keys(alone)) {
		locks = append(locks, Lock{HCA: name, Shared: !alone[name]})
	}
	return locks
}

// excludes reports whether two devices with a common HCA must not be used at the same time.
func (d Device) excludes(other Device) bool {
	if d.AdminAccess || other.AdminAccess {
		return false
	}
	if d.alone() || other.alone() {
		return true
	}
	// If the API server does not support shares, a shared device has one claim at a time.
	return d.Device == other.Device && d.ShareID == nil && other.ShareID == nil
}

// alone reports whether the device gives its HCA to one claim alone.
func (d Device) alone() bool {
	name := devicename.Parse(d.Device)
	return !name.Shared && name.Group == "" && d.ShareID == nil
}
