package cdi

import (
	"errors"
	"fmt"

	cdiapi "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
)

// ParseSpec parses the content of a spec file of any program. It accepts what the runtimes' CDI libraries
// accept. It also rejects files that are too large for a spec, files on which a library
// panics, and files that two libraries read differently.
func ParseSpec(data []byte) (*specs.Spec, error) {
	root, err := yamlread.Spec.Parse(data)
	if err == nil {
		err = checkScalars(root)
	}
	if err != nil {
		return nil, fmt.Errorf("parse CDI spec: %w", err)
	}
	spec, err := cdiapi.ParseSpec(data)
	if err != nil {
		return nil, fmt.Errorf("parse CDI spec: %w", yamlread.PositionsOf(data).Explain(err))
	}
	if spec == nil {
		return nil, errors.New("parse CDI spec: it is null")
	}
	if err := Validate(spec); err != nil {
		return nil, err
	}
	return spec, nil
}

// checkNulls returns the null elements of a spec's lists. The CDI library panics on them.
func checkNulls(spec *specs.Spec) error {
	errs := nullsOf("containerEdits", &spec.ContainerEdits)
	for i := range spec.Devices {
		errs = append(errs, nullsOf(fmt.Sprintf("devices[%d].containerEdits", i), &spec.Devices[i].ContainerEdits)...)
	}
	return yamlread.Join(errs)
}

func nullsOf(path string, e *specs.ContainerEdits) []error {
	errs := nulls(path+".deviceNodes", e.DeviceNodes)
	errs = append(errs, nulls(path+".netDevices", e.NetDevices)...)
	errs = append(errs, nulls(path+".hooks", e.Hooks)...)
	return append(errs, nulls(path+".mounts", e.Mounts)...)
}

func nulls[T any](path string, list []*T) []error {
	var errs []error
	for i, element := range list {
		if element == nil {
			errs = append(errs,
				fmt.Errorf("%s[%d] is null, and %w on it: remove it, or say what it is", path, i, ErrPanics))
		}
	}
	return errs
}
