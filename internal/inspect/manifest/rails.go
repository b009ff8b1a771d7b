package manifest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// SetRails adds a selector to each request for HCAs in the claim templates of pods. So all pods get HCAs on the same
// rails, which it returns: a pod with k HCAs gets those of the first k rails. It cuts the published rails, or those of
// them in only if there are some, into rows of as many as the largest pod needs, the lowest first, so that pods of one
// size leave whole rows to others. It takes the row whose devices the fewest claims hold.
func (m *Manifest) SetRails(ctx context.Context, v *model.View, only []int64) ([]int64, error) {
	templates, most, err := m.gang(v, v.ClassesOfDriver(ctx))
	if err != nil {
		return nil, err
	}
	held := map[int64]int{}
	for _, d := range v.Devices {
		rail := d.Attributes[rdma.AttributeRail].IntValue
		if d.Slice.Spec.Driver == rdma.Domain && rail != nil && (len(only) == 0 || slices.Contains(only, *rail)) {
			held[*rail] += len(v.Holdings.Names(d.ID))
		}
	}
	rails := slices.Sorted(maps.Keys(held))
	if len(rails) < most {
		return nil, fmt.Errorf("a pod asks for %s, and HCAs are published on the rails [%s] of those to choose from: ask "+
			"for fewer HCAs, choose other rails, or set rails in the driver's policy", text.Count(most, "HCA"), Numbers(rails))
	}
	claims := func(row []int64) (n int) {
		for _, rail := range row {
			n += held[rail]
		}
		return n
	}
	rows := slices.Collect(slices.Chunk(rails[:len(rails)-len(rails)%most], most))
	if len(rows) > 1 && v.Cluster.Unread.Has(model.Claims) {
		return nil, fmt.Errorf("claims could not be read, so nobody can tell which rails the fewest have: name %d by --rails",
			most)
	}
	rails = slices.MinFunc(rows, func(a, b []int64) int { return claims(a) - claims(b) })
	for i := range m.Templates {
		t, rest := &m.Templates[i], rails
		for _, r := range templates[t] {
			expression := fmt.Sprintf(`device.attributes["%s"].?%s.orValue(-1) in [%s]`, rdma.Domain, rdma.AttributeRail,
				Numbers(rest[:r.Count]))
			selector := resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}
			*r.Selectors, rest = append(*r.Selectors, selector), rest[r.Count:]
			if err := checkRails(ctx, v, r); err != nil {
				return nil, fmt.Errorf("request %s of ResourceClaimTemplate %s: %w", text.Foreign(r.Name),
					text.Foreign(t.Name), err)
			}
		}
	}
	return rails, nil
}

// Numbers lists rails.
func Numbers(rails []int64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(rails), " ", ", "), "[]")
}

// gang finds the claim templates of pods that ask for HCAs, with these requests, and how many HCAs the largest has.
func (m *Manifest) gang(v *model.View, ours map[string]bool) (
	templates map[*resourceapi.ResourceClaimTemplate][]model.Request, most int, _ error,
) {
	templates = map[*resourceapi.ResourceClaimTemplate][]model.Request{}
	for i := range m.Pods {
		p, claims := &m.Pods[i], 0
		for _, ref := range p.Pod.Spec.ResourceClaims {
			t := m.template(p.Pod.Namespace, ptr.Deref(ref.ResourceClaimTemplateName, ""))
			if t == nil && ofOthers(v, p.Pod.Namespace, ref, ours) {
				continue
			}
			if t == nil {
				return nil, 0, fmt.Errorf("claim %s of %s has no ResourceClaimTemplate in the files: add it",
					text.Foreign(ref.Name), text.Foreign(cmp.Or(p.Of, "Pod/"+p.Pod.Name)))
			}
			requests, count, err := hcaRequests(v, t, ours)
			if err != nil {
				return nil, 0, fmt.Errorf("ResourceClaimTemplate %s: %w", text.Foreign(t.Name), err)
			}
			if count > 0 {
				templates[t], most, claims = requests, max(most, count), claims+1
			}
		}
		if claims > 1 {
			return nil, 0, fmt.Errorf("%s has HCAs by %d claims, which would ask for the same rails: put their requests into "+
				"one ResourceClaimTemplate", text.Foreign(cmp.Or(p.Of, "Pod/"+p.Pod.Name)), claims)
		}
	}
	if most == 0 {
		return nil, 0, errors.New("no pod asks for HCAs by a ResourceClaimTemplate: extended resources cannot select rails")
	}
	return templates, most, nil
}

// ofOthers reports whether the claim of a pod, by its own name or by a template of the cluster, is known to ask for no
// HCA.
func ofOthers(v *model.View, namespace string, ref corev1.PodResourceClaim, ours map[string]bool) bool {
	claim := v.Claims[types.NamespacedName{Namespace: namespace, Name: ptr.Deref(ref.ResourceClaimName, "")}]
	for _, t := range v.Cluster.Templates {
		if t.Namespace == namespace && t.Name == ptr.Deref(ref.ResourceClaimTemplateName, "") {
			claim = &resourceapi.ResourceClaim{Spec: t.Spec.Spec}
		}
	}
	forHCAs := func(r model.Request) bool { return v.Classes[r.Class] == nil || ours[r.Class] }
	return claim != nil && !slices.ContainsFunc(model.RequestsOf(claim), forHCAs)
}

// byRail finds the name of the attribute in an expression.
var byRail = regexp.MustCompile(`\b` + rdma.AttributeRail + `\b`)

// hcaRequests returns the requests of a template for HCAs, and their number of HCAs.
func hcaRequests(v *model.View, t *resourceapi.ResourceClaimTemplate, ours map[string]bool) (
	out []model.Request, count int, _ error,
) {
	for _, r := range model.RequestsOf(&resourceapi.ResourceClaim{Spec: t.Spec.Spec}) {
		selectsRails := func(s resourceapi.DeviceSelector) bool {
			return s.CEL != nil && byRail.MatchString(s.CEL.Expression)
		}
		switch {
		case v.Classes[r.Class] != nil && !ours[r.Class]:
			continue
		case strings.Contains(r.Name, "/") || r.Count == 0 || r.Count > resourceapi.AllocationResultsMaxSize:
			return nil, 0, fmt.Errorf("request %s has alternatives (firstAvailable), or no count up to %d: ask for exactly "+
				"some HCAs", text.Foreign(r.Name), resourceapi.AllocationResultsMaxSize)
		case slices.ContainsFunc(*r.Selectors, selectsRails):
			return nil, 0, fmt.Errorf("request %s selects rails already: remove this selector", text.Foreign(r.Name))
		}
		out, count = append(out, r), count+int(r.Count)
	}
	return out, count, nil
}

// checkRails returns an error if no node publishes the HCAs of a request, or if some could be on the same rail.
func checkRails(ctx context.Context, v *model.View, r model.Request) error {
	report, err := v.Judge(ctx, r, nil)
	if err != nil || report.Error != "" {
		return fmt.Errorf("DeviceClass %s: %w", text.Foreign(r.Class), cmp.Or(err, errors.New(report.Error)))
	}
	enough := false
	for _, node := range slices.Sorted(maps.Keys(report.Matching)) {
		devices, rails := report.Matching[node], map[int64]bool{}
		for _, d := range devices {
			rails[ptr.Deref(d.Attributes[rdma.AttributeRail].IntValue, -1)] = true
		}
		shared := func(d *model.Device) bool { return ptr.Deref(d.AllowMultipleAllocations, false) }
		if r.Count > 1 && (len(devices) > len(rails) || slices.ContainsFunc(devices, shared)) {
			return fmt.Errorf("node %s has several devices or shares for it on one rail, so %d can be on fewer rails: "+
				"write %d requests of one device", text.Foreign(node), r.Count, r.Count)
		}
		enough = enough || len(devices) >= int(r.Count)
	}
	if !enough {
		return fmt.Errorf("no node publishes %s for it on these rails: choose others, or compare with kubectl rdma devices "+
			"-o wide", text.Count(int(r.Count), "HCA"))
	}
	return nil
}

// Write returns the documents of all files, with the selectors that [Manifest.SetRails] has added. Comments and the
// order of fields stay. It reads the result again: if this does not say the same as the manifest and the documents that
// it leaves alone, a file has a form that Write does not know, and that is an error.
func (r *Reader) Write() ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	templates := r.out.Templates
	for _, document := range r.documents {
		if at(document.Content[0], "kind").Value == "ResourceClaimTemplate" && len(templates) > 0 {
			requests := at(document.Content[0], "spec", "spec", "devices", "requests").Content
			for i, request := range templates[0].Spec.Spec.Devices.Requests {
				if i < len(requests) && request.Exactly != nil {
					addSelector(at(requests[i], "exactly"), request.Exactly.Selectors)
				}
			}
			templates = templates[1:]
		}
		if err := encoder.Encode(document); err != nil {
			return nil, fmt.Errorf("encode a document: %w", err)
		}
	}
	again := Reader{Namespace: r.Namespace, Only: r.Only}
	if err := again.Read(out.Bytes()); err != nil || !reflect.DeepEqual(again.out, r.out) {
		return nil, errors.New("a ResourceClaimTemplate is written in a way that this program cannot change: write each " +
			"as a document of its own, without aliases (*) and merge keys (<<)")
	}
	if !slices.EqualFunc(r.documents, again.documents, same) {
		return nil, errors.New("an object beside the ResourceClaimTemplates would say something else when written again: " +
			"keep it in a file of its own, and apply it apart")
	}
	return out.Bytes(), nil
}

// same reports whether a document and what was read of its text say the same, apart from the selectors of templates.
func same(document, again *yaml.Node) bool {
	var a, b any
	err := errors.Join(document.Decode(&a), again.Decode(&b))
	return err == nil && (at(document.Content[0], "kind").Value == "ResourceClaimTemplate" || reflect.DeepEqual(a, b))
}

// addSelector adds the last selector of a request to its text, if this has one less.
func addSelector(exactly *yaml.Node, selectors []resourceapi.DeviceSelector) {
	list, last := at(exactly, "selectors"), len(selectors)-1
	if last != len(list.Content) || selectors[last].CEL == nil {
		return
	}
	expression := &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.SingleQuotedStyle, Value: selectors[last].CEL.Expression}
	selector := mapping("cel", mapping("expression", expression))
	if list.Kind == yaml.SequenceNode {
		list.Content = append(list.Content, selector)
		return
	}
	list = &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: []*yaml.Node{selector}}
	exactly.Content = append(exactly.Content, mapping("selectors", list).Content...)
}

func mapping(key string, value *yaml.Node) *yaml.Node {
	return &yaml.Node{
		Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: key}, value},
	}
}

// at returns the value below some keys, an empty one if there is none.
func at(node *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		value := &yaml.Node{}
		for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				value = node.Content[i+1]
			}
		}
		node = value
	}
	return node
}
