package cdi

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	cdiapi "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// Inject gives an OCI spec the edits of devices, with the CDI library. root is the host's root directory on this
// system. It is idempotent: a second call adds no hook and no rule a second time. After an error the OCI spec may have
// a part of the edits, so the caller must drop it. The error has ErrUnresolved if a device cannot be found.
func (r *Registry) Inject(spec *oci.Spec, root string, names ...string) error {
	edits := &cdiapi.ContainerEdits{ContainerEdits: &specs.ContainerEdits{}}
	var seen []*specs.Spec
	var errs []error
	for _, name := range names {
		d, err := r.Find(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !slices.Contains(seen, d.spec) {
			seen = append(seen, d.spec)
			edits.Append(&cdiapi.ContainerEdits{ContainerEdits: &d.spec.ContainerEdits})
		}
		edits.Append(&cdiapi.ContainerEdits{ContainerEdits: &d.device.ContainerEdits})
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	nodes, err := onThisSystem(edits.DeviceNodes, root)
	if err != nil {
		return err
	}
	edits.DeviceNodes = nodes
	before := additive(spec)
	if err := edits.Apply(spec); err != nil {
		return fmt.Errorf("give the container its devices: %w", err)
	}
	before.dropRepeats(spec)
	return nil
}

// onThisSystem copies nodes, because the library changes them, and names the file that it looks at.
func onThisSystem(nodes []*specs.DeviceNode, root string) ([]*specs.DeviceNode, error) {
	var out []*specs.DeviceNode
	for _, n := range nodes {
		own := *n
		if own.HostPath == "" {
			own.HostPath = own.Path
		}
		at, err := hostfs.Resolve(hostfs.DirFS(root), own.HostPath)
		if err != nil {
			return nil, fmt.Errorf("find the node of a device: %w; if devices have changed, run cdi-gen generate --to "+
				"again", err)
		}
		own.HostPath = filepath.Join(root, at)
		out = append(out, &own)
	}
	return out, nil
}

// lists are the lists of an OCI spec to which the library always appends.
type lists struct {
	hooks oci.Hooks
	rules []oci.LinuxDeviceCgroup
}

func additive(spec *oci.Spec) (l lists) {
	if spec.Hooks != nil {
		l.hooks = *spec.Hooks
	}
	if spec.Linux != nil && spec.Linux.Resources != nil {
		l.rules = spec.Linux.Resources.Devices
	}
	return l
}

// dropRepeats removes new elements that equal an earlier one.
func (l lists) dropRepeats(spec *oci.Spec) {
	if h := spec.Hooks; h != nil {
		//lint:ignore SA1019 a spec of another program may have such a hook
		h.Prestart = unrepeated(h.Prestart, len(l.hooks.Prestart))
		h.CreateRuntime = unrepeated(h.CreateRuntime, len(l.hooks.CreateRuntime))
		h.CreateContainer = unrepeated(h.CreateContainer, len(l.hooks.CreateContainer))
		h.StartContainer = unrepeated(h.StartContainer, len(l.hooks.StartContainer))
		h.Poststart = unrepeated(h.Poststart, len(l.hooks.Poststart))
		h.Poststop = unrepeated(h.Poststop, len(l.hooks.Poststop))
	}
	if spec.Linux != nil && spec.Linux.Resources != nil {
		spec.Linux.Resources.Devices = unrepeated(spec.Linux.Resources.Devices, len(l.rules))
	}
}

// unrepeated keeps the first elements, and of the others those that equal no earlier one.
func unrepeated[T any](list []T, first int) []T {
	out := slices.Clip(list[:first])
	for _, element := range list[first:] {
		if !slices.ContainsFunc(out, func(other T) bool { return reflect.DeepEqual(element, other) }) {
			out = append(out, element)
		}
	}
	return out
}
