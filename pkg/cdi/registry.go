package cdi

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Registry is what a container runtime finds in the directories of CDI specs.
//
// It has the rules of the CDI library's cache, and a test compares the two. The cache itself panics on some specs,
// reads files of any size, and cannot read a host below another root.
type Registry struct {
	// Devices are the devices that a runtime resolves, sorted by name.
	Devices []Resolved `json:"devices"`
	// Conflicts are the devices that two files of one directory define. A runtime refuses them, even if a directory of
	// higher priority defines them too.
	Conflicts []Conflict `json:"conflicts,omitempty"`
	// Faults are files and directories that a runtime cannot read.
	Faults []Fault `json:"faults,omitempty"`
}

// Resolved is a device with the file that defines it.
type Resolved struct {
	Name string `json:"name"` // vendor/class=device
	File string `json:"file"`
	// Overrides are files with the same device in directories of lower priority.
	Overrides []string `json:"overrides,omitempty"`

	spec   *specs.Spec
	device *specs.Device // of the spec
}

// Conflict is what several files of one directory define.
type Conflict struct {
	Devices []string `json:"devices"`
	Files   []string `json:"files"`
}

// Fault is a file that a runtime cannot read, and the reason.
type Fault struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
	// Unread means that a runtime may read it: this process could not, or it has more than this package reads.
	Unread bool `json:"unread,omitempty"`
}

// ReadRegistry reads directories of specs, the one of highest priority last. A missing directory is empty.
func ReadRegistry(host fs.ReadLinkFS, dirs ...string) *Registry {
	return Resolve(ReadDirs(host, dirs...))
}

// Resolve returns what a runtime finds in files that ReadDirs returned.
func Resolve(files []SpecFile) *Registry {
	r := &Registry{Devices: []Resolved{}} // never nil: JSON must have a list
	found := map[string][]*SpecFile{}
	for i := range files {
		f := &files[i]
		if f.Err != nil && !errors.Is(f.Err, ErrExtension) && !errors.Is(f.Err, fs.ErrNotExist) {
			r.Faults = append(r.Faults, Fault{File: f.Path, Reason: f.Err.Error(), Unread: f.Unread()})
		}
		for _, name := range f.Devices() {
			found[name] = append(found[name], f)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		r.resolve(name, found[name])
	}
	return r
}

// resolve adds a device. The files are in the order of the directories.
func (r *Registry) resolve(name string, files []*SpecFile) {
	var paths []string
	byDir := map[string][]string{}
	for _, f := range files {
		paths = append(paths, f.Path)
		byDir[f.Dir] = append(byDir[f.Dir], f.Path)
	}
	if len(byDir) < len(files) {
		for _, dir := range slices.Sorted(maps.Keys(byDir)) {
			r.refuse(name, byDir[dir])
		}
		return
	}
	last := len(files) - 1
	spec := files[last].Spec
	device := slices.IndexFunc(spec.Devices, func(d specs.Device) bool { return Qualified(spec.Kind, d.Name) == name })
	r.Devices = append(r.Devices, Resolved{Name: name, File: paths[last], Overrides: paths[:last:last],
		spec: spec, device: &spec.Devices[device]})
}

// refuse adds a device to the conflict of the files that define it, if there are several.
func (r *Registry) refuse(name string, files []string) {
	if len(files) < 2 {
		return
	}
	i := slices.IndexFunc(r.Conflicts, func(c Conflict) bool { return slices.Equal(c.Files, files) })
	if i < 0 {
		i, r.Conflicts = len(r.Conflicts), append(r.Conflicts, Conflict{Files: files})
	}
	r.Conflicts[i].Devices = append(r.Conflicts[i].Devices, name)
}

// Find returns a device, or an error that says why a runtime does not resolve it.
func (r *Registry) Find(name string) (*Resolved, error) {
	i, ok := slices.BinarySearchFunc(r.Devices, name,
		func(d Resolved, name string) int { return cmp.Compare(d.Name, name) })
	if ok {
		return &r.Devices[i], nil
	}
	for _, c := range r.Conflicts {
		if slices.Contains(c.Devices, name) {
			return nil, fmt.Errorf("%w: several files of one directory define %s: %q; remove all but one", ErrUnresolved,
				name, c.Files)
		}
	}
	err := fmt.Errorf("%w: %s is in no CDI spec", ErrUnresolved, name)
	if len(r.Faults) > 0 {
		err = fmt.Errorf("%w; %q cannot be read: %s", err, r.Faults[0].File, r.Faults[0].Reason)
	}
	return nil, err
}

// FindHCA returns a device of a kind that has a name of an HCA, or nil. Of several it returns the first in the order of
// NameStrategies with which Purpose finds no fault, or else the first.
func (r *Registry) FindHCA(kind string, h *rdma.HCA, slots *Slots) *Resolved {
	var first *Resolved
	for _, name := range namesOf(h, NameStrategies) {
		d, err := r.Find(Qualified(kind, name))
		if err != nil {
			continue
		}
		if _, err := d.Purpose(slots); err == nil {
			return d
		}
		first = cmp.Or(first, d)
	}
	return first
}

// ErrUnresolved means that a runtime would not find a device.
var ErrUnresolved = errors.New("unresolvable CDI device")
