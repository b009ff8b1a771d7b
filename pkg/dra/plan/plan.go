// Package plan decides what a ResourceClaim's containers get: claim and host in,
// devices and CDI spec out.
//
// Everything here is a pure function. A [Plan] is made from the allocation that
// the scheduler wrote into the claim and from the configuration of its classes
// and of the claim itself; it holds identities and settings, no kernel names. The
// CDI spec is made from a plan and a snapshot of the host, so it can be made
// again at any time: uverbs numbers move, slots do not.
package plan

import (
	"errors"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// DriverName is the name of the DRA driver, and the domain of its attributes.
const DriverName = "rdma.dev"

// Plan is what a claim gets on this node.
type Plan struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// Devices has one entry for each allocation result of this driver.
	Devices []Device `json:"devices"`
}

// Device is one allocated device.
type Device struct {
	// Request is the request, with the subrequest if there is one: "nic/fast".
	Request string `json:"request"`
	Pool    string `json:"pool"`
	// Device is the device name in the pool, made from the slot (rdma.Identity).
	Device string `json:"device"`
	// ShareID tells apart the shares of a device that several claims may use.
	ShareID *types.UID `json:"shareID,omitempty"`
	// AdminAccess marks access for monitoring, beside the device's user.
	AdminAccess bool     `json:"adminAccess,omitempty"`
	Settings    Settings `json:"settings"`
}

// Claim returns "namespace/name" for messages.
func (p *Plan) Claim() string { return p.Namespace + "/" + p.Name }

// CDIName is the name of a device in the claim's CDI spec. It is unique to
// claim, request, device and share, since each container gets just the requests
// it names, and the kubelet tells devices apart by it. It starts with a letter,
// as device names do.
func (p *Plan) CDIName(d Device) string {
	name := fmt.Sprintf("%s.%s.%s", d.Device, strings.ReplaceAll(d.Request, "/", "."), p.UID)
	if d.ShareID != nil {
		name += "." + string(*d.ShareID)
	}
	return name
}

// CDIDevice is the fully qualified CDI name of a device.
func (p *Plan) CDIDevice(d Device) string { return cdi.Qualified(cdi.KindClaim, p.CDIName(d)) }

// New makes the plan of an allocated claim for the pool of this node. Base holds
// the driver's own defaults. Results of other drivers are left alone; a claim
// without any of ours is an error, because the kubelet would not have asked.
func New(claim *resourceapi.ResourceClaim, pool string, base Settings) (*Plan, error) {
	p := &Plan{UID: claim.UID, Namespace: claim.Namespace, Name: claim.Name}
	if claim.Status.Allocation == nil {
		return nil, fmt.Errorf("claim %s is not allocated", p.Claim())
	}
	allocation := claim.Status.Allocation.Devices
	var errs []error
	for _, result := range allocation.Results {
		if result.Driver != DriverName {
			continue
		}
		if result.Pool != pool {
			errs = append(errs, fmt.Errorf("claim %s, request %s: device %s is of pool %s, but this node has only pool %s",
				p.Claim(), result.Request, result.Device, result.Pool, pool))
			continue
		}
		admin := result.AdminAccess != nil && *result.AdminAccess
		settings, err := resolve(allocation.Config, result, admin, base)
		if err != nil {
			errs = append(errs, fmt.Errorf("claim %s, request %s: %w", p.Claim(), result.Request, err))
			continue
		}
		p.Devices = append(p.Devices, Device{
			Request: result.Request, Pool: result.Pool, Device: result.Device,
			ShareID: result.ShareID, AdminAccess: admin, Settings: settings,
		})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(p.Devices) == 0 {
		return nil, fmt.Errorf("claim %s has no device of driver %s", p.Claim(), DriverName)
	}
	return p, nil
}

// Overlap returns an error if two plans use one device in a way that excludes
// the other: at least one of them as its only user. Shares of a device and
// access for monitoring do not exclude anyone. The scheduler keeps claims apart;
// this is the last line of defence against its mistakes.
func (p *Plan) Overlap(other *Plan) error {
	if p.UID == other.UID {
		return nil
	}
	for _, a := range p.Devices {
		for _, b := range other.Devices {
			if a.Device == b.Device && a.excludes(b) {
				return fmt.Errorf("device %s is in use by claim %s (%s): two claims were given one device; delete the pod of one of them",
					a.Device, other.Claim(), other.UID)
			}
		}
	}
	return nil
}

func (d Device) excludes(other Device) bool {
	if d.AdminAccess || other.AdminAccess {
		return false
	}
	return d.ShareID == nil || other.ShareID == nil
}
