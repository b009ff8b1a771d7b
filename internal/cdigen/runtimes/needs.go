package runtimes

import (
	"errors"
	"fmt"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"
)

// Need is a part of a spec that older CDI versions do not have.
type Need struct {
	// Field says where it stands: `devices "mlx5_0": deviceNodes[0].hostPath`.
	Field string
	// Version is the first CDI version that has it.
	Version string
}

// floor is the version that a spec has which needs nothing: the oldest one that
// the CDI library writes.
const floor = "0.3.0"

// Needs lists the parts of a spec that need a CDI version above the oldest, in
// the order in which they stand there (SPEC.md of CDI, "Released versions").
func Needs(spec *specs.Spec) []Need {
	var needs []Need
	if _, class, _ := strings.Cut(spec.Kind, "/"); strings.Contains(class, ".") {
		needs = append(needs, Need{fmt.Sprintf("kind %q (a dot in the class)", spec.Kind), "0.6.0"})
	}
	// An old library refuses a field that it does not know, even without content.
	if spec.Annotations != nil {
		needs = append(needs, Need{"annotations", "0.6.0"})
	}
	needs = append(needs, editNeeds("containerEdits: ", &spec.ContainerEdits)...)
	for i := range spec.Devices {
		d := &spec.Devices[i]
		where := fmt.Sprintf("device %q", d.Name)
		if d.Name != "" && d.Name[0] >= '0' && d.Name[0] <= '9' {
			needs = append(needs, Need{where + " (a name that starts with a digit)", "0.5.0"})
		}
		if d.Annotations != nil {
			needs = append(needs, Need{where + ": annotations", "0.6.0"})
		}
		needs = append(needs, editNeeds(where+": ", &d.ContainerEdits)...)
	}
	return needs
}

func editNeeds(where string, e *specs.ContainerEdits) []Need {
	var needs []Need
	add := func(version, format string, args ...any) {
		needs = append(needs, Need{where + fmt.Sprintf(format, args...), version})
	}
	for i, n := range e.DeviceNodes {
		if n != nil && n.HostPath != "" {
			add("0.5.0", "deviceNodes[%d].hostPath", i)
		}
	}
	for i, m := range e.Mounts {
		if m != nil && m.Type != "" {
			add("0.4.0", "mounts[%d].type", i)
		}
	}
	if e.AdditionalGIDs != nil {
		add("0.7.0", "additionalGids")
	}
	if rdt := e.IntelRdt; rdt != nil {
		add("0.7.0", "intelRdt")
		if rdt.Schemata != nil {
			add("1.1.0", "intelRdt.schemata")
		}
		if rdt.EnableMonitoring {
			add("1.1.0", "intelRdt.enableMonitoring")
		}
	}
	if e.NetDevices != nil {
		add("1.1.0", "netDevices")
	}
	return needs
}

// Check says why the target cannot load a spec: which fields need which version,
// or that the version the spec declares is too new for it. It returns nil if the
// target loads it, once its CDI support is on.
func (t Target) Check(spec *specs.Spec) error {
	if t.MaxCDI == "" {
		return fmt.Errorf("%s reads no CDI specs: %s", t, t.Note)
	}
	var errs []error
	for _, n := range Needs(spec) {
		if tooNew(n.Version, t.MaxCDI) {
			errs = append(errs, fmt.Errorf("%s needs CDI %s, and %s reads up to %s", n.Field, n.Version, t, t.MaxCDI))
		}
	}
	if len(errs) == 0 && spec.Version != "" && tooNew(spec.Version, t.MaxCDI) {
		errs = append(errs, fmt.Errorf("cdiVersion %s is declared, and %s reads up to %s; nothing in the spec needs more "+
			"than %s",
			spec.Version, t, t.MaxCDI, Lowest(spec)))
	}
	if len(errs) == 0 {
		return t.checkLibrary(spec)
	}
	return errors.Join(errs...)
}

// tooNew reports whether a CDI version is above the limit. One that is no version
// is left to the CDI library, which refuses it everywhere.
func tooNew(cdi, limit string) bool {
	have, err := parseVersion(cdi)
	most, err2 := parseVersion(limit)
	return err == nil && err2 == nil && have.compare(most) > 0
}

// Lowest is the lowest CDI version that says what a spec says, over all its
// devices; specs.MinimumRequiredVersion of the CDI library (v1.1.1) overlooks
// hostPath and mount types in all but the last.
func Lowest(spec *specs.Spec) string {
	lowest := floor
	for _, n := range Needs(spec) {
		if tooNew(n.Version, lowest) {
			lowest = n.Version
		}
	}
	return lowest
}
