package policy

import (
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// foreignDomains are domains whose attributes have a meaning elsewhere.
var foreignDomains = []string{"resource.kubernetes.io", "k8s.cni.cncf.io"}

// attributes validates the attributes of a rule.
func (p *problems) attributes(path string, entries map[string]FileAttribute) attributes {
	out := attributes{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entry := entries[name]
		path := yamlread.Path(path, name)
		p.attributeName(path, name)
		values := 0
		for _, set := range []bool{entry.String != nil, entry.Int != nil, entry.Bool != nil} {
			if set {
				values++
			}
		}
		if values != 1 {
			p.add(path, "want one of string, int and bool, not %d", values)
		}
		if s := entry.String; s != nil && (*s == "" || len(*s) > resourceapi.DeviceAttributeMaxValueLength) {
			p.add(path+".string", "want 1 to %d bytes, not %d", resourceapi.DeviceAttributeMaxValueLength, len(*s))
		}
		if name == rdma.AttributeLeafSwitch && entry.String == nil {
			p.add(path, "is the name of a switch: want a string")
		}
		out[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{
			StringValue: entry.String, IntValue: entry.Int, BoolValue: entry.Bool,
		}
	}
	return out
}

// attributeName validates the name of an attribute by the API's rules. It also rejects the
// driver's own attributes.
func (p *problems) attributeName(path, name string) {
	domain, id, qualified := strings.Cut(name, "/")
	if !qualified {
		domain, id = rdma.Domain, name
	}
	messages := append(validation.IsDNS1123Subdomain(domain), validation.IsCIdentifier(id)...)
	if len(domain) > resourceapi.DeviceMaxDomainLength || len(id) > resourceapi.DeviceMaxIDLength {
		messages = append(messages, "it is too long")
	}
	own := append([]resourceapi.QualifiedName{rdma.AttributeRail, rdma.AttributeGroup}, resources.OwnAttributes...)
	switch {
	case len(messages) > 0:
		p.add(path, "is no name of an attribute: "+
			"want an identifier of at most %d characters, with or without \"domain/\": %s",
			resourceapi.DeviceMaxIDLength, strings.Join(messages, "; "))
	case qualified && domain == rdma.Domain:
		p.add(path, "is in the driver's domain: write it without %s/", rdma.Domain)
	case slices.Contains(foreignDomains, domain), !qualified && slices.Contains(own, resourceapi.QualifiedName(name)):
		p.add(path, "is an attribute that the driver sets itself: choose another name, or one in a domain of yours")
	}
}

func stringAttribute(value string) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{StringValue: &value}
}

// room checks that a device with all of the rule's attributes is within the API's limit.
func (p *problems) room(path string, r *rule, f *File) {
	taken := len(resources.OwnAttributes)
	if _, set := r.extra[rdma.AttributeLeafSwitch]; len(f.LeafFrom) > 0 && !set {
		taken++
	}
	if r.rail != nil || r.rails > 0 {
		taken++
	}
	if r.resource != "" {
		taken += 2
	}
	if r.form.Shared() {
		taken += 2 // shares, bandwidth
		for _, limited := range []bool{r.capacity.Handles > 0, r.capacity.Objects > 0} {
			if limited {
				taken++
			}
		}
	}
	if free := resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice - taken; len(r.extra) > free {
		p.add(path, "%d are too many: beside %d attributes and capacities of the driver's own there is room for %d",
			len(r.extra), taken, free)
	}
}

// siteAttributes returns the attributes that a rule adds to an HCA. number is the number of its card
// in the rule, negative for none.
func (r *rule) siteAttributes(h *rdma.HCA, number int) attributes {
	out := attributes{}
	for name, a := range r.extra {
		out[name] = a
	}
	rail := r.rail
	if number >= 0 {
		rail = new(int64(number))
	}
	if rail != nil {
		out[rdma.AttributeRail] = resourceapi.DeviceAttribute{IntValue: rail}
	}
	if r.resource != "" {
		out[resources.AttributeResourceName] = resourceapi.DeviceAttribute{StringValue: new(r.resource)}
		if h.PCI != nil && (h.Function == rdma.PF || h.Function == rdma.VF) {
			out[resources.AttributeDeviceID] = resourceapi.DeviceAttribute{StringValue: new(h.PCI.Address)}
		}
	}
	return out
}
