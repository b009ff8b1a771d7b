package inspect

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// sharedPrefix begins the name of an HCA's device for many claims.
const sharedPrefix = "shared-"

// HCAOf returns the name of the HCA of a device: that of its device for one claim.
func HCAOf(device string) string { return strings.TrimPrefix(device, sharedPrefix) }

// DrainPlan is what draining a node, or HCAs of it, would do.
type DrainPlan struct {
	Node string `json:"node"`
	// HCAs are the drained HCAs, none for the whole node.
	HCAs []DrainTarget `json:"hcas,omitempty"`
	// Users are the claims that have devices which the rules select.
	Users []DrainUser `json:"users"`
	// Rules are the rules to write, without their author.
	Rules []resourceapi.DeviceTaintRule `json:"rules"`
}

// DrainTarget is an HCA to drain.
type DrainTarget struct {
	Name  string `json:"name"`
	IBDev string `json:"ibdev,omitempty"`
	// Devices are the forms in which the HCA can be published: for one claim, and for many. Functions are the published
	// devices of its VFs and SFs. Groups are the devices of all groups of the node: a ResourceSlice does not say which
	// HCAs a group has.
	Devices   []string `json:"devices"`
	Functions []string `json:"functions,omitempty"`
	Groups    []string `json:"groups,omitempty"`
}

// DrainUser is a claim with devices that the rules select.
type DrainUser struct {
	Claim   string   `json:"claim"`
	Devices []string `json:"devices"`
	// Pods and PodGroups are those for which the claim is reserved.
	Pods      []string `json:"pods,omitempty"`
	PodGroups []string `json:"podGroups,omitempty"`
	// Tolerates says that the claim tolerates the taint, so that NoExecute ends none of its pods. EvictedAfterSeconds is
	// how long NoExecute lets them run else.
	Tolerates           bool  `json:"tolerates,omitempty"`
	EvictedAfterSeconds int64 `json:"evictedAfterSeconds,omitempty"`
}

// HasDevices reports whether the driver publishes devices of a node.
func (c *Cluster) HasDevices(node string) bool {
	return slices.ContainsFunc(c.Slices, func(s resourceapi.ResourceSlice) bool {
		return s.Spec.Driver == driver && s.Spec.Pool.Name == node && len(s.Spec.Devices) > 0
	})
}

// PlanDrain plans to drain HCAs of a node, or all of it if hcas is empty. An HCA is named by its device or by the
// kernel's name. The result is the same for the same cluster and names, so that draining twice changes nothing.
func (c *Cluster) PlanDrain(node string, hcas []string, effect resourceapi.DeviceTaintEffect,
	reason string) (*DrainPlan, error) {
	plan := &DrainPlan{Node: node, Users: []DrainUser{}}
	devices := devicesIn(c.Slices, node)
	if len(hcas) == 0 {
		plan.Rules = append(plan.Rules, drainRule(node, "", "", effect, reason))
	}
	for _, name := range hcas {
		target, err := targetIn(devices, node, name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(plan.HCAs, func(t DrainTarget) bool { return t.Name == target.Name }) {
			continue
		}
		plan.HCAs = append(plan.HCAs, *target)
		for _, device := range slices.Concat(target.Devices, target.Functions, target.Groups) {
			plan.Rules = append(plan.Rules, drainRule(node, target.Name, device, effect, reason))
		}
	}
	plan.addUsers(c.Claims)
	return plan, nil
}

// targetIn finds an HCA of a node among its devices, and all devices that give it to a claim.
func targetIn(ours []*device, node, name string) (*DrainTarget, error) {
	found, err := findHCA(ours, node, name)
	if err != nil {
		return nil, err
	}
	hca := HCAOf(found.Name)
	out := &DrainTarget{Name: hca, IBDev: found.text("ibdev"), Devices: []string{hca, sharedPrefix + hca}}
	if n := len(sharedPrefix + hca); n > validation.DNS1123LabelMaxLength {
		out.Devices = out.Devices[:1] // no device can have that name
	}
	address := found.text(deviceattribute.StandardDeviceAttributePCIBusID)
	for _, d := range ours {
		switch {
		case d.text("group") != "":
			out.Groups = append(out.Groups, d.Name)
		case address != "" && d.text("parentPCI") == address && d.text("function") != "pf":
			out.Functions = append(out.Functions, d.Name)
		}
	}
	return out, nil
}

// findHCA finds a device of an HCA by its own name or the kernel's.
func findHCA(ours []*device, node, name string) (found *device, _ error) {
	var known []string
	for _, d := range ours {
		if d.text("group") != "" {
			continue
		}
		hca, ibdev := HCAOf(d.Name), d.text("ibdev")
		known = appendNew(known, cmp.Or(ibdev, hca))
		if hca != HCAOf(name) && ibdev != name {
			continue
		}
		if found != nil && HCAOf(found.Name) != hca {
			return nil, fmt.Errorf("find HCA %q of node %q: %s and %s have this name: name the device",
				name, node, found.Name, d.Name)
		}
		found = d
	}
	if found == nil {
		return nil, fmt.Errorf("find HCA %q of node %q: it is not published; name one of: %s", name, node,
			text.Some(known, ", "))
	}
	return found, nil
}

// devicesIn returns the devices of this driver in the pool of a node. Those of an incomplete pool, or of a generation
// that is being replaced, count too: they may be published again.
func devicesIn(all []resourceapi.ResourceSlice, node string) (out []*device) {
	seen := map[string]bool{}
	for i := range all {
		s := &all[i]
		if s.Spec.Driver != driver || s.Spec.Pool.Name != node {
			continue
		}
		for j := range s.Spec.Devices {
			if d := &s.Spec.Devices[j]; !seen[d.Name] {
				seen[d.Name] = true
				out = append(out, &device{Device: d, slice: s})
			}
		}
	}
	return out
}

// addUsers adds the claims that have devices which the plan's rules select.
func (p *DrainPlan) addUsers(claims []resourceapi.ResourceClaim) {
	for i := range claims {
		claim := &claims[i]
		user := DrainUser{Claim: claimName(claim), Pods: podsOf(claim), PodGroups: podGroupsOf(claim), Tolerates: true}
		for _, r := range resultsOf(claim) {
			chosen := slices.IndexFunc(p.Rules, func(rule resourceapi.DeviceTaintRule) bool {
				want := rule.Spec.DeviceSelector
				return r.Driver == driver && r.Pool == p.Node && (want.Device == nil || *want.Device == r.Device)
			})
			if chosen < 0 {
				continue
			}
			user.Devices = appendNew(user.Devices, r.Device)
			taint := p.Rules[chosen].Spec.Taint
			taint.Effect = resourceapi.DeviceTaintEffectNoExecute // also where this drain has another one
			if after, ends := evicts(&taint, r.Tolerations); ends {
				seconds := int64(after.Seconds())
				if !user.Tolerates {
					seconds = min(seconds, user.EvictedAfterSeconds)
				}
				user.Tolerates, user.EvictedAfterSeconds = false, seconds
			}
		}
		if user.Devices != nil {
			p.Users = append(p.Users, user)
		}
	}
	slices.SortFunc(p.Users, func(a, b DrainUser) int { return cmp.Compare(a.Claim, b.Claim) })
}

// Evicted counts the pods that NoExecute would end. Those of PodGroups are not in their claims, and not counted.
func (p *DrainPlan) Evicted() (pods int) {
	names := map[string]bool{}
	for _, u := range p.Users {
		namespace, _, _ := strings.Cut(u.Claim, "/")
		for _, pod := range u.Pods {
			names[namespace+"/"+pod] = names[namespace+"/"+pod] || !u.Tolerates
		}
	}
	for _, evicted := range names {
		if evicted {
			pods++
		}
	}
	return pods
}

// DrainUserTable shows the claims that have devices of a plan.
func DrainUserTable(users []DrainUser) *metav1.Table {
	t := columns("Claim", "Devices", "Pods", "Note")
	for _, u := range users {
		c, note := Claim{Pods: u.Pods, PodGroups: u.PodGroups}, ""
		switch {
		case u.Tolerates:
			note = "tolerates the taint: its pods stay"
		case u.EvictedAfterSeconds > 0:
			note = fmt.Sprintf("tolerates the taint for %d s, then its pods end", u.EvictedAfterSeconds)
		}
		row(t, u.Claim, few(u.Devices, 4), few(c.users(), 8), note)
	}
	return t
}

// drainRule makes the rule for a device of an HCA, or for a whole node.
func drainRule(node, hca, device string, effect resourceapi.DeviceTaintEffect,
	reason string) resourceapi.DeviceTaintRule {
	rule := resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{
			Name: drainName(node, hca, device), Labels: map[string]string{DrainKey: cmp.Or(hca, DrainNode)},
		},
		Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: new(driver), Pool: &node},
			Taint:          resourceapi.DeviceTaint{Key: DrainKey, Effect: effect},
		},
	}
	if device != "" {
		rule.Spec.DeviceSelector.Device = &device
	}
	if reason != "" {
		rule.Annotations = map[string]string{DrainReason: reason}
	}
	return rule
}

// drainName returns the name of a rule. Devices have no dots in their names, so different rules have different names.
func drainName(node, hca, device string) string {
	prefix := "rdma-drain.node."
	if device != "" {
		prefix = "rdma-drain." + hca + "." + device + "."
	}
	if len(prefix)+len(node) > validation.DNS1123SubdomainMaxLength {
		node = fmt.Sprintf("%.16x", sha256.Sum256([]byte(node)))
	}
	return prefix + node
}
