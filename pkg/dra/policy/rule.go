package policy

import (
	"context"
	"fmt"
	"math"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// rule is a compiled rule.
type rule struct {
	name      string
	selectors selectors
	form      resources.Form
	capacity  resources.Capacity // its bandwidth is nil where the file has none
	rail      *int64
	rails     int64    // number of cards to number; 0: none
	ipam      string   // the entry of ipam of all HCAs, "" for none
	railIPAM  []string // the entry of ipam of each number of rails, nil for none
	resource  string
	marks     v1alpha1.Marks
	vlan      int // 0: none
	unused    bool
	minPCIe   rdma.PCIeLink
	minRate   int // in units of 10^9 bit/s, 0: none
	extra     attributes
}

// group is a compiled group.
type group struct {
	name      string
	selectors selectors
	shares    int64
}

type attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

// selectors are compiled CEL expressions. All of them must be true.
type selectors []cel.CompilationResult

// match reports whether all selectors are true for an HCA. They cannot read the attribute
// shared, because it depends on their result.
func (s selectors) match(h *rdma.HCA, mode rdma.NetnsMode) (bool, error) {
	if len(s) == 0 {
		return true, nil
	}
	device := cel.Device{Driver: rdma.Domain, Attributes: resources.Attributes(h, mode)}
	delete(device.Attributes, "shared")
	for i, compiled := range s {
		matches, _, err := compiled.DeviceMatches(context.Background(), device)
		if err != nil {
			return false, fmt.Errorf("selector %d: %w", i, cel.EnhanceRuntimeError(err))
		}
		if !matches {
			return false, nil
		}
	}
	return true, nil
}

// askForSoftware reports whether selectors that match a software HCA ask for one: hardware with the same attributes
// would not match. A name does not count, because a pod may choose it.
func (s selectors) askForSoftware(h *rdma.HCA, mode rdma.NetnsMode) bool {
	hardware := *h
	hardware.Function, hardware.Driver = rdma.PF, "none"
	matches, err := s.match(&hardware, mode)
	return err == nil && !matches
}

func element(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// Limits of the file's numbers.
const (
	// defaultShares is 63 for RoCE: a port has 128 GIDs, and a container with an address
	// of its own takes two, for RoCE v1 and v2. One pair is the port's own. Other
	// protocols have no such table. They get the same number, so that nodes of both
	// kinds have the same attributes.
	defaultShares = 63
	maxShares     = 1_000_000
	maxRail       = math.MaxInt32
	maxExpression = resourceapi.CELSelectorExpressionMaxLength
)

// rule validates and compiles a rule.
func (p *problems) rule(path string, e *FileRule, f *File) *rule {
	r := &rule{
		name: e.Name, form: resources.Form(e.Publish), resource: e.ResourceName, rail: e.Rail,
		selectors: p.selectors(path, e.Selectors), extra: p.attributes(path+".attributes", e.Attributes),
	}
	if e.Name == "" {
		p.add(path+".name", "is required")
	}
	switch r.form {
	case "":
		r.form = resources.FormExclusive
	case resources.FormNone, resources.FormExclusive, resources.FormShared:
	case resources.FormBoth:
		if !f.Partitioning {
			p.add(path+".publish", "both needs partitioning: true: "+
				"without counters nothing keeps an exclusive HCA and its shares apart")
		}
	default:
		p.add(path+".publish", "want none, exclusive, shared or both, not %q", e.Publish)
	}
	p.capacity(path, e, r)
	p.rails(path, e, r)
	p.ruleIPAM(path, e, r)
	p.resourceName(path+".resourceName", e.ResourceName)
	r.marks = v1alpha1.Marks{TrafficClass: e.TrafficClass, ServiceLevel: e.ServiceLevel}
	between(p, path+".trafficClass", e.TrafficClass, 0, v1alpha1.MaxTrafficClass, 0)
	between(p, path+".serviceLevel", e.ServiceLevel, 0, v1alpha1.MaxServiceLevel, 0)
	r.vlan = between(p, path+".vlan", e.VLAN, v1alpha1.MinVLAN, v1alpha1.MaxVLAN, 0)
	r.unused = e.Unused
	if e.MinPCIe != "" {
		link, err := rdma.ParsePCIeLink(e.MinPCIe)
		if err != nil {
			p.add(path+".minPCIe", "%w", err)
		}
		r.minPCIe = link
	}
	r.minRate = between(p, path+".minRateGbps", e.MinRateGbps, 1, 100_000, 0)
	p.room(path+".attributes", r, f)
	return r
}

// capacity validates the capacities that claims share.
func (p *problems) capacity(path string, e *FileRule, r *rule) {
	if !r.form.Shared() {
		for name, set := range map[string]bool{
			"shares": e.Shares != nil, "defaultShares": e.DefaultShares != nil, "bandwidth": e.Bandwidth != nil,
			"handles": e.Handles != nil, "objects": e.Objects != nil,
		} {
			if set {
				p.add(path+"."+name, "is for publish: shared and both, not %s", r.form)
			}
		}
		return
	}
	r.capacity.Shares = between(p, path+".shares", e.Shares, 1, maxShares, defaultShares)
	r.capacity.DefaultShares = between(p, path+".defaultShares", e.DefaultShares, 1, r.capacity.Shares, 1)
	r.capacity.Handles = p.total(path+".handles", e.Handles, r.capacity.Shares)
	r.capacity.Objects = p.total(path+".objects", e.Objects, r.capacity.Shares)
	if e.Bandwidth != nil {
		b := &e.Bandwidth.value
		if b.CmpInt64(resources.BandwidthStep) < 0 || b.CmpInt64(math.MaxInt64) > 0 {
			p.add(path+".bandwidth", "want bits per second, at least 1M, not %s", b)
		}
		r.capacity.Bandwidth = b
	}
}

// between validates an optional number.
func between[N int | int64](p *problems, path string, n *N, least, most, byDefault N) N {
	if n == nil {
		return byDefault
	}
	if *n < least || *n > most {
		p.add(path, "want a number from %d to %d, not %d", least, most, *n)
		return byDefault
	}
	return *n
}

// total validates a total for the rdma cgroup controller, which counts in 32 bits. It must
// be enough for each share.
func (p *problems) total(path string, optional *Quantity, shares int64) int64 {
	if optional == nil {
		return 0
	}
	q := &optional.value
	if q.CmpInt64(shares) < 0 || q.CmpInt64(math.MaxInt32) > 0 || q.MilliValue()%1000 != 0 {
		p.add(path, "want a whole number from %d, one for each share, to %d, not %s", shares, math.MaxInt32, q)
		return 0
	}
	return q.Value()
}

func (p *problems) rails(path string, e *FileRule, r *rule) {
	if e.Rail != nil && e.Rails != nil {
		p.add(path+".rails", "rail gives all HCAs one number, rails numbers the cards: set one of them")
	}
	between(p, path+".rail", e.Rail, 0, maxRail, 0)
	r.rails = between(p, path+".rails", e.Rails, 1, maxRail, 0)
}

func (p *problems) resourceName(path, name string) {
	if name == "" {
		return
	}
	messages := validation.IsQualifiedName(name)
	if len(name) > resourceapi.DeviceAttributeMaxValueLength {
		messages = append(messages, validation.MaxLenError(resourceapi.DeviceAttributeMaxValueLength))
	}
	if len(messages) > 0 {
		p.add(path, "%q is no resource name: %s", name, strings.Join(messages, "; "))
	}
}

// group validates and compiles a group.
func (p *problems) group(path string, e *FileGroup) *group {
	g := &group{
		name: e.Name, selectors: p.selectors(path, e.Selectors),
		shares: between(p, path+".shares", e.Shares, 1, maxShares, defaultShares),
	}
	if e.Name == "" {
		p.add(path+".name", "is required")
	} else if messages := validation.IsDNS1123Label(devicename.Group(e.Name)); len(messages) > 0 {
		p.add(path+".name", "the group's device cannot be called %q: %s",
			devicename.Group(e.Name), strings.Join(messages, "; "))
	}
	return g
}

// selectors compiles expressions by the API's rules for DeviceClasses.
func (p *problems) selectors(path string, entries []FileSelector) selectors {
	var out selectors
	if n := len(entries); n > resourceapi.DeviceSelectorsMaxSize {
		p.add(path+".selectors", "%d are too many: at most %d", n, resourceapi.DeviceSelectorsMaxSize)
		return nil
	}
	for i, e := range entries {
		path := element(path+".selectors", i) + ".cel.expression"
		switch n := len(e.CEL.Expression); {
		case n == 0:
			p.add(path, "is required")
			continue
		case n > maxExpression:
			p.add(path, "has %d bytes: at most %d", n, maxExpression)
			continue
		}
		compiled := cel.GetCompiler(features).CompileCELExpression(e.CEL.Expression, cel.Options{})
		if compiled.Error != nil {
			p.add(path, "%s", compiled.Error.Detail)
			continue
		}
		if compiled.MaxCost > resourceapi.CELSelectorExpressionMaxCost {
			p.add(path, "is too complex: its cost can be %d, at most %d is allowed",
				compiled.MaxCost, resourceapi.CELSelectorExpressionMaxCost)
			continue
		}
		out = append(out, compiled)
	}
	return out
}

// expected returns what the rule expects of an HCA, nothing for no rule. Only the cards of a rule with rails are alike,
// and only while the rule has all of them: a rule without rails may have cards of several networks.
func (r *rule) expected(numbered bool) health.Expected {
	if r == nil {
		return health.Expected{}
	}
	out := health.Expected{MinRateMbps: r.minRate * 1000, Unused: r.unused, MinPCIe: r.minPCIe}
	if r.rails > 0 {
		out.Peers, out.Alike = r.name, numbered
	}
	return out
}
