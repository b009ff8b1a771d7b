// Package plan decides what the containers of a ResourceClaim get. Its input is the claim and the host, its output the
// devices and the CDI spec.
//
// All functions are pure. A [Plan] is made from three sources: the allocation that the scheduler wrote into the claim,
// the configuration of the classes and of the claim, and the administrator's settings for every claim. It has
// identities and settings, and no kernel names. The CDI spec is made from a plan and a snapshot of the host, so it can
// be made again at any time. This is necessary because uverbs numbers change, while slots do not.
//
// Later settings of the node do not change an existing plan. The plan records the values that [Facts] contributed, and
// [Facts.WithPrepared] returns them.
package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Plan is what a claim gets on this node.
type Plan struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// Site is what the node gives to each of its claims.
	Site *Site `json:"site,omitempty"`
	// Metadata has the files for containers about their devices, nil for none.
	Metadata *Metadata `json:"metadata,omitempty"`
	// NCCLTopology is the file on the host with the positions of the claim's HCAs for NCCL, "" for none.
	NCCLTopology string `json:"ncclTopology,omitempty"`
	// Devices has one entry for each allocation result of this driver.
	Devices []Device `json:"devices"`
	// Pods are the UIDs of the pods that the claim is reserved for, as far as the node knows. The claim may be reserved
	// for further pods after it was prepared.
	Pods []types.UID `json:"pods,omitempty"`
	// Only is the UID of the pod that the claim was made for from a template: no other pod can use the claim. It is ""
	// for a claim that pods may share.
	Only types.UID `json:"only,omitempty"`
	// PodGroup is the name of the PodGroup that the claim is reserved for, "" for none. Then the status of the claim does
	// not name the pods of the group, and the node learns them from the kubelet.
	PodGroup string `json:"podGroup,omitempty"`
	// Bytes is the node's memory that the claim takes besides its record: the spec, and the files for containers.
	Bytes int `json:"bytes,omitempty"`
}

// Device is one allocated device.
type Device struct {
	// Request is the name of the request, with the subrequest if there is one: "nic/fast".
	Request string `json:"request"`
	Pool    string `json:"pool"`
	// Device is the name of the device in the pool, made from the slot (package devicename).
	Device string `json:"device"`
	// Members are the names of the HCAs of a group at the first Prepare of the claim. They are empty for a device of
	// one HCA.
	Members []string `json:"members,omitempty"`
	// Cards are the HCAs that no other claim may use alone while this claim has the device. The device is a VF or SF of
	// their card, or a group with one. Cards is empty if the site allows both at the same time.
	Cards []string `json:"cards,omitempty"`
	// ShareID distinguishes the shares of a device that several claims may use.
	ShareID *types.UID `json:"shareID,omitempty"`
	// AdminAccess marks access for monitoring, which does not exclude the user of the device.
	AdminAccess bool     `json:"adminAccess,omitempty"`
	Settings    Settings `json:"settings"`
	// Limits bound what each container uses of each HCA of the device.
	Limits Limits `json:"limits,omitzero"`
	// VLAN is the VLAN of the pods that use the device, 0 for none. It is set even if this claim asks for no interface.
	VLAN int `json:"vlan,omitempty"`
	// Network is the network interface that the pod gets with the device, nil for none.
	Network *Network `json:"network,omitempty"`
}

// HCAs returns the names of the HCAs of a device.
func (d Device) HCAs() []string {
	if len(d.Members) > 0 {
		return d.Members
	}
	return []string{devicename.Parse(d.Device).HCA}
}

// HCAs returns the names of the HCAs of a plan, sorted, each once.
func (p *Plan) HCAs() []string {
	var names []string
	for _, d := range p.Devices {
		names = append(names, d.HCAs()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// HasNetwork reports whether the pod gets a network interface with any device.
func (p *Plan) HasNetwork() bool {
	return slices.ContainsFunc(p.Devices, func(d Device) bool { return d.Network != nil })
}

// Claim returns "namespace/name". It is for messages.
func (p *Plan) Claim() string { return p.Namespace + "/" + p.Name }

// CDIName returns the name of a device in the claim's CDI spec. The name is unique for claim, request, device and
// share: each container gets only the requests that it names, and the kubelet distinguishes devices by the name. It
// starts with a letter, as device names do.
func (p *Plan) CDIName(d Device) string {
	name := fmt.Sprintf("%s.%s.%s", d.Device, strings.ReplaceAll(d.Request, "/", "."), p.UID)
	if d.ShareID != nil {
		name += "." + string(*d.ShareID)
	}
	return name
}

// CDIDevice returns the fully qualified CDI name of a device.
func (p *Plan) CDIDevice(d Device) string { return cdi.Qualified(cdi.KindClaim, p.CDIName(d)) }

// CDIDevices returns the fully qualified CDI names of all devices.
func (p *Plan) CDIDevices() []string {
	names := make([]string, len(p.Devices))
	for i, d := range p.Devices {
		names[i] = p.CDIDevice(d)
	}
	return names
}

// IsOf reports whether a plan fits the present allocation of a claim: the allocation has all devices of the plan.
func (p *Plan) IsOf(claim *resourceapi.ResourceClaim) bool {
	results := Results(claim)
	return claim.UID == p.UID && !slices.ContainsFunc(p.Devices, func(d Device) bool {
		return !slices.ContainsFunc(results, func(r resourceapi.DeviceRequestAllocationResult) bool {
			sameShare := (d.ShareID == nil) == (r.ShareID == nil) && (d.ShareID == nil || *d.ShareID == *r.ShareID)
			return d.Pool == r.Pool && d.Device == r.Device && sameShare
		})
	})
}

// New makes the plan of an allocated claim on a node. It ignores results of other drivers. A claim without a device of
// this driver is an error, because the kubelet would not have asked.
func New(claim *resourceapi.ResourceClaim, facts Facts) (*Plan, error) {
	p := &Plan{
		UID: claim.UID, Namespace: claim.Namespace, Name: claim.Name, Site: &facts.Site,
		Metadata: newMetadata(claim, facts), Pods: PodsOf(claim), Only: ownerOf(claim),
		PodGroup: PodGroupOf(claim),
	}
	if facts.Refused != nil {
		return nil, fmt.Errorf("claim %s: %w", p.Claim(), facts.Refused)
	}
	if claim.Status.Allocation == nil {
		return nil, fmt.Errorf("claim %s is not allocated", p.Claim())
	}
	if err := check(claim); err != nil {
		return nil, fmt.Errorf("claim %s: %w", p.Claim(), err)
	}
	var errs []error
	for _, result := range Results(claim) {
		d, err := p.newDevice(result, claim.Status.Allocation.Devices.Config, facts)
		if err != nil {
			errs = append(errs, fmt.Errorf("claim %s, request %s: %w", p.Claim(), result.Request, err))
			continue
		}
		p.Devices = append(p.Devices, d)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	nameInterfaces := func() error { return p.nameInterfaces(facts.Networks) }
	for _, complete := range []func() error{p.agree, nameInterfaces, p.checkMarks} {
		if err := complete(); err != nil {
			return nil, fmt.Errorf("claim %s: %w", p.Claim(), err)
		}
	}
	if len(p.Devices) == 0 {
		return nil, fmt.Errorf("claim %s has no device of driver %s", p.Claim(), rdma.Domain)
	}
	p.NCCLTopology = p.ncclTopology(facts)
	return p, nil
}

// Results returns the allocation results of this driver.
func Results(claim *resourceapi.ResourceClaim) []resourceapi.DeviceRequestAllocationResult {
	if claim.Status.Allocation == nil {
		return nil
	}
	var out []resourceapi.DeviceRequestAllocationResult
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.Driver == rdma.Domain {
			out = append(out, r)
		}
	}
	return out
}

func (p *Plan) newDevice(
	result resourceapi.DeviceRequestAllocationResult, configs []resourceapi.DeviceAllocationConfiguration, facts Facts,
) (Device, error) {
	if result.Pool != facts.Pool {
		return Device{}, fmt.Errorf("device %s is of pool %s, but this node has only pool %s",
			result.Device, result.Pool, facts.Pool)
	}
	d := Device{
		Request: result.Request, Pool: result.Pool, Device: result.Device, ShareID: result.ShareID,
		AdminAccess: result.AdminAccess != nil && *result.AdminAccess,
	}
	words, err := readConfigs(configs, result)
	if err != nil {
		return Device{}, err
	}
	if d.Settings, err = words.settings(d.AdminAccess, facts.Site); err != nil {
		return Device{}, err
	}
	if d.Limits, err = words.limits(d.AdminAccess, result.ConsumedCapacity); err != nil {
		return Device{}, err
	}
	var missing error
	if group := devicename.Parse(d.Device).Group; group != "" {
		d.Members, missing = facts.members(group)
	}
	d.VLAN = words.vlan(d, facts.Networks)
	if d.Network, err = words.network(d, facts); err == nil {
		err = d.checkShares(result.ConsumedCapacity)
	}
	if err != nil {
		return Device{}, err
	}
	d.Cards = facts.cards(d)
	if d.Settings.Marks, err = words.marks(facts.marks(d), d.Settings.Env); err != nil {
		return Device{}, err
	}
	return d, missing
}
