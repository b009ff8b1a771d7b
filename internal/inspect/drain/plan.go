package drain

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
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Plan is what draining a node, or HCAs of it, would do.
type Plan struct {
	Node string `json:"node"`
	// HCAs are the drained HCAs, none for the whole node.
	HCAs []Target `json:"hcas,omitempty"`
	// Users are the claims that have devices which the rules select.
	Users []User `json:"users"`
	// Rules are the rules to write, without their author.
	Rules []resourceapi.DeviceTaintRule `json:"rules"`
}

// Target is an HCA to drain.
type Target struct {
	Name  string `json:"name"`
	IBDev string `json:"ibdev,omitempty"`
	// Devices are the forms in which the HCA can be published: for one claim, and for many. Functions are the published
	// devices of its VFs and SFs. Groups are the devices of all groups of the node: a ResourceSlice does not say which
	// HCAs a group has.
	Devices   []string `json:"devices"`
	Functions []string `json:"functions,omitempty"`
	Groups    []string `json:"groups,omitempty"`
}

// User is a claim with devices that the rules select.
type User struct {
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
func HasDevices(c *model.Cluster, node string) bool {
	return slices.ContainsFunc(c.Slices, func(s resourceapi.ResourceSlice) bool {
		return s.Spec.Driver == rdma.Domain && s.Spec.Pool.Name == node && len(s.Spec.Devices) > 0
	})
}

// NewPlan plans to drain HCAs of a node, or all of it if hcas is empty. An HCA is named by its device or by the
// kernel's name. The result is the same for the same cluster and names, so that draining twice changes nothing.
func NewPlan(c *model.Cluster, node string, hcas []string, effect resourceapi.DeviceTaintEffect,
	reason string) (*Plan, error) {
	plan := &Plan{Node: node, Users: []User{}}
	devices := devicesIn(c.Slices, node)
	if len(hcas) == 0 {
		plan.Rules = append(plan.Rules, drainRule(node, "", "", effect, reason))
	}
	for _, name := range hcas {
		target, err := targetIn(devices, node, name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(plan.HCAs, func(t Target) bool { return t.Name == target.Name }) {
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
func targetIn(ours []*model.Device, node, name string) (*Target, error) {
	found, err := findHCA(ours, node, name)
	if err != nil {
		return nil, err
	}
	hca := model.HCAOf(found.Name)
	out := &Target{Name: hca, IBDev: found.Text(rdma.AttributeIBDev), Devices: []string{hca, model.SharedPrefix + hca}}
	if n := len(model.SharedPrefix + hca); n > validation.DNS1123LabelMaxLength {
		out.Devices = out.Devices[:1] // no device can have that name
	}
	address := found.Text(deviceattribute.StandardDeviceAttributePCIBusID)
	for _, d := range ours {
		switch {
		case d.Text(rdma.AttributeGroup) != "":
			out.Groups = append(out.Groups, d.Name)
		case address != "" && d.Text(rdma.AttributeParentPCI) == address && d.Text(rdma.AttributeFunction) != "pf":
			out.Functions = append(out.Functions, d.Name)
		}
	}
	return out, nil
}

// findHCA finds a device of an HCA by its own name or the kernel's.
func findHCA(ours []*model.Device, node, name string) (found *model.Device, _ error) {
	var known []string
	for _, d := range ours {
		if d.Text(rdma.AttributeGroup) != "" {
			continue
		}
		hca, ibdev := model.HCAOf(d.Name), d.Text(rdma.AttributeIBDev)
		known = model.AppendNew(known, cmp.Or(ibdev, hca))
		if hca != model.HCAOf(name) && ibdev != name {
			continue
		}
		if found != nil && model.HCAOf(found.Name) != hca {
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
func devicesIn(all []resourceapi.ResourceSlice, node string) (out []*model.Device) {
	seen := map[string]bool{}
	for i := range all {
		s := &all[i]
		if s.Spec.Driver != rdma.Domain || s.Spec.Pool.Name != node {
			continue
		}
		for j := range s.Spec.Devices {
			if d := &s.Spec.Devices[j]; !seen[d.Name] {
				seen[d.Name] = true
				out = append(out, &model.Device{Device: d, Slice: s})
			}
		}
	}
	return out
}

// addUsers adds the claims that have devices which the plan's rules select.
func (p *Plan) addUsers(claims []resourceapi.ResourceClaim) {
	for i := range claims {
		claim := &claims[i]
		user := User{
			Claim: model.ClaimName(claim), Pods: model.PodsOf(claim), PodGroups: model.PodGroupsOf(claim), Tolerates: true,
		}
		for _, r := range model.ResultsOf(claim) {
			chosen := slices.IndexFunc(p.Rules, func(rule resourceapi.DeviceTaintRule) bool {
				want := rule.Spec.DeviceSelector
				return r.Driver == rdma.Domain && r.Pool == p.Node && (want.Device == nil || *want.Device == r.Device)
			})
			if chosen < 0 {
				continue
			}
			user.Devices = model.AppendNew(user.Devices, r.Device)
			taint := p.Rules[chosen].Spec.Taint
			taint.Effect = resourceapi.DeviceTaintEffectNoExecute // also where this drain has another one
			if after, ends := model.Evicts(&taint, r.Tolerations); ends {
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
	slices.SortFunc(p.Users, func(a, b User) int { return cmp.Compare(a.Claim, b.Claim) })
}

// Evicted counts the pods that NoExecute would end. Those of PodGroups are not in their claims, and not counted.
func (p *Plan) Evicted() (pods int) {
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

// UserTable shows the claims that have devices of a plan.
func UserTable(users []User) *metav1.Table {
	t := lists.Columns("Claim", "Devices", "Pods", "Note")
	for _, u := range users {
		users, note := (&lists.Claim{Pods: u.Pods, PodGroups: u.PodGroups}).Users(), ""
		switch {
		case u.Tolerates:
			note = "tolerates the taint: its pods stay"
		case u.EvictedAfterSeconds > 0:
			note = fmt.Sprintf("tolerates the taint for %d s, then its pods end", u.EvictedAfterSeconds)
		}
		lists.Row(t, u.Claim, model.Few(u.Devices, 4), model.Few(users, 8), note)
	}
	return t
}

// drainRule makes the rule for a device of an HCA, or for a whole node.
func drainRule(node, hca, device string, effect resourceapi.DeviceTaintEffect,
	reason string) resourceapi.DeviceTaintRule {
	rule := resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{
			Name: drainName(node, hca, device), Labels: map[string]string{model.DrainKey: cmp.Or(hca, model.DrainNode)},
		},
		Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: new(rdma.Domain), Pool: &node},
			Taint:          resourceapi.DeviceTaint{Key: model.DrainKey, Effect: effect},
		},
	}
	if device != "" {
		rule.Spec.DeviceSelector.Device = &device
	}
	if reason != "" {
		rule.Annotations = map[string]string{model.DrainReason: reason}
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
