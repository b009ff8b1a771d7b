package resources

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// View says as which devices an HCA is in the pool.
type View string

// The views.
const (
	ViewNone      View = "none"      // not published
	ViewExclusive View = "exclusive" // one device, for one claim at a time
	ViewShared    View = "shared"    // one device that many claims get shares of
	ViewBoth      View = "both"      // two devices that exclude each other by counters
)

// Exclusive reports whether the view has the device for one claim at a time.
func (v View) Exclusive() bool { return v == ViewExclusive || v == ViewBoth }

// Shared reports whether the view has the device for many claims.
func (v View) Shared() bool { return v == ViewShared || v == ViewBoth }

// Offer is what of an HCA is published: the site's policy applied to one HCA.
type Offer struct {
	HCA  *rdma.HCA
	View View
	// Capacity of the shared device.
	Capacity Capacity
	// Attributes of the site, in the driver's domain or one of their own, beside
	// those that the HCA has by itself.
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	// Draining keeps new claims off devices that the policy no longer offers, and
	// that stay in the pool since claims hold them.
	Draining bool
	// Unlocked leaves the exclusive device out of the counters: claims hold devices
	// that exclude each other, so that no counter can tell the truth.
	Unlocked bool
	// Taints say what is wrong with the HCA, sorted by key.
	Taints []resourceapi.DeviceTaint
}

// Capacity is what claims consume of a shared device (KEP-5075). A claim that asks
// for nothing gets the default shares, and their part of what is enforced.
type Capacity struct {
	// Shares is how many shares there are.
	Shares int64
	// DefaultShares is what a claim gets that asks for none: at least 1.
	DefaultShares int64
	// Bandwidth is in bits per second; nil where it is not known. It is accounted,
	// not enforced, and a claim that asks for none is given none.
	Bandwidth *resource.Quantity
	// Handles and Objects are totals of what the rdma cgroup controller limits for
	// each container: open contexts and verbs objects (kernel/cgroup/rdma.c); 0 for
	// no limit. A claim that asks for none gets the part of the default shares.
	Handles, Objects int64
}

// Group is a device that stands for several HCAs at once, and that many claims
// get shares of.
type Group struct {
	Name string
	// Members are what a new claim gets.
	Members []*rdma.HCA
	// Former are HCAs that are no members any more, and that claims of the group
	// still have. Nobody can have them alone before these claims end.
	Former []*rdma.HCA
	// Shares is how many claims fit.
	Shares int64
	// Draining is as in [Offer].
	Draining bool
}

// touches lists the HCAs that claims of the group use.
func (g Group) touches() []*rdma.HCA { return slices.Concat(g.Members, g.Former) }
