package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

// markVariables has, by the words of env, the variables with the marks of a library's packets.
var markVariables = map[string]struct{ trafficClass, serviceLevel string }{
	v1alpha1.EnvNCCL:    {"NCCL_IB_TC", "NCCL_IB_SL"},
	v1alpha1.EnvNVSHMEM: {"NVSHMEM_IB_TRAFFIC_CLASS", "NVSHMEM_IB_SL"},
	v1alpha1.EnvUCX:     {"UCX_IB_TRAFFIC_CLASS", "UCX_IB_SL"},
	v1alpha1.EnvVLLM:    {"UCX_IB_TRAFFIC_CLASS", "UCX_IB_SL"}, // of NIXL's UCX
}

var errNoLibrary = errors.New("trafficClass, serviceLevel: no library gets them: " +
	"add nccl, nvshmem, ucx or vllm to env, or leave the fields out")

// marks returns the merged marks of a device. rules has, for each of its HCAs, the marks of the HCA's rule.
func (w *words) marks(rules []v1alpha1.Marks, env []string) (out v1alpha1.Marks, err error) {
	takesMarks := func(word string) bool { _, ok := markVariables[word]; return ok }
	if !slices.ContainsFunc(env, takesMarks) {
		if w.requested.Marks != (v1alpha1.Marks{}) {
			err = errNoLibrary
		}
		return out, err
	}
	for i, m := range rules {
		m.Overlay(w.defaults.Marks)
		m.Overlay(w.requested.Marks)
		if i > 0 {
			err = errors.Join(err, differ(out, m))
		}
		out = m
	}
	if err != nil {
		return out, fmt.Errorf("the rules of the group's HCAs in the driver's policy differ: %w", err)
	}
	return out, nil
}

// marks returns, for each HCA of a device, the marks of its rule. A claim that was prepared before keeps its marks.
func (f Facts) marks(d Device) (rules []v1alpha1.Marks) {
	if f.made != nil {
		return []v1alpha1.Marks{madeDevice(f.made, d).Settings.Marks}
	}
	for _, hca := range d.HCAs() {
		rules = append(rules, f.Marks[hca])
	}
	return rules
}

// checkMarks returns an error if a variable would get two values of a mark: a library takes one for all HCAs of a
// container.
func (p *Plan) checkMarks() error {
	for _, word := range slices.Sorted(maps.Keys(markVariables)) {
		takesMark := func(other string) bool { return markVariables[other] == markVariables[word] }
		var first *Device
		for i := range p.Devices {
			d := &p.Devices[i]
			if !slices.ContainsFunc(d.Settings.Env, takesMark) {
				continue
			}
			if first == nil {
				first = d
			}
			if err := differ(first.Settings.Marks, d.Settings.Marks); err != nil {
				return fmt.Errorf("devices %s and %s: %w, and %s takes one value for all HCAs of a container: "+
					"request them in two claims for two containers, or leave %s out of env", first.Device, d.Device, err, word, word)
			}
		}
	}
	return nil
}

// differ returns an error that names the marks that differ.
func differ(a, b v1alpha1.Marks) error {
	var errs []error
	for _, m := range []struct {
		name string
		a, b *int
	}{{"trafficClass", a.TrafficClass, b.TrafficClass}, {"serviceLevel", a.ServiceLevel, b.ServiceLevel}} {
		if one, other := markText(m.a), markText(m.b); one != other {
			errs = append(errs, fmt.Errorf("%s is %s and %s", m.name, one, other))
		}
	}
	return errors.Join(errs...)
}

func markText(n *int) string {
	if n == nil {
		return "not set"
	}
	return strconv.Itoa(*n)
}

// markEnv returns the variables with the marks of a library's packets.
func markEnv(library string, m v1alpha1.Marks) (env []string) {
	names := markVariables[library]
	if names.trafficClass != "" && m.TrafficClass != nil {
		env = append(env, names.trafficClass+"="+strconv.Itoa(*m.TrafficClass))
	}
	if names.serviceLevel != "" && m.ServiceLevel != nil {
		env = append(env, names.serviceLevel+"="+strconv.Itoa(*m.ServiceLevel))
	}
	return env
}
