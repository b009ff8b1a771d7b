package resources

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Form is the form in which an HCA is published.
type Form string

// The forms.
const (
	FormNone      Form = "none"      // not published
	FormExclusive Form = "exclusive" // one device, for one claim at a time
	FormShared    Form = "shared"    // one device that many claims get shares of
	FormBoth      Form = "both"      // two devices that exclude each other by counters
)

// Exclusive reports whether the form has a device for one claim at a time.
func (v Form) Exclusive() bool { return v == FormExclusive || v == FormBoth }

// Shared reports whether the form has a device for many claims.
func (v Form) Shared() bool { return v == FormShared || v == FormBoth }

// Offer is the result of the site's policy for one HCA: how the HCA is published.
type Offer struct {
	HCA  *rdma.HCA
	Form Form
	// Capacity is the capacity of the shared device.
	Capacity Capacity
	// Attributes are the attributes of the site, in the driver's domain or another one. They add to those of the HCA
	// itself.
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	// Draining keeps new claims off devices that the policy no longer offers. Such devices stay in the pool while
	// claims hold them.
	Draining bool
	// Unlocked omits the exclusive device from the counters. Claims already hold devices that exclude each other, so no
	// value of a counter would be true.
	Unlocked bool
	// Taints are the taints for the faults of the HCA, sorted by key.
	Taints []resourceapi.DeviceTaint
}

// Capacity is what claims consume of a shared device (KEP-5075). A claim that requests nothing gets the default shares
// and the corresponding part of the enforced limits.
type Capacity struct {
	// Shares is the number of shares.
	Shares int64
	// DefaultShares is the number of shares for a claim that requests none: at least 1.
	DefaultShares int64
	// Bandwidth is in bits per second, nil if it is unknown. It is accounted and not enforced. A claim that requests
	// none gets none.
	Bandwidth *resource.Quantity
	// Handles and Objects are the totals of what the rdma cgroup controller limits for each container: open contexts
	// and verbs objects (kernel/cgroup/rdma.c). 0 means no limit. A claim that requests none gets the part of the
	// default shares.
	Handles, Objects int64
}

// Group is a device that stands for several HCAs at once. Many claims get shares of it.
type Group struct {
	Name string
	// Members are the HCAs that a new claim gets.
	Members []*rdma.HCA
	// Former are HCAs that were removed from the group while claims of the group still have them. No claim can have
	// them alone before these claims end.
	Former []*rdma.HCA
	// Shares is the greatest number of claims.
	Shares int64
	// Draining is as in [Offer].
	Draining bool
}

// touches returns the HCAs that claims of the group use.
func (g Group) touches() []*rdma.HCA { return slices.Concat(g.Members, g.Former) }
