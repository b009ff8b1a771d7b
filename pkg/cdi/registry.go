package cdi

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
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
	// Files are the devices that each valid file defines, by the path of the file.
	Files map[string][]string `json:"-"`
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

// Conflict is a device with all files that define it.
type Conflict struct {
	Name  string   `json:"name"`
	Files []string `json:"files"`
}

// Fault is a file that a runtime cannot read, and the reason.
type Fault struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
	// Unread means that a runtime may read it: it has more than this package reads.
	Unread bool `json:"unread,omitempty"`
}

// definition is one definition of a device.
type definition struct {
	file   string
	dir    int
	spec   *specs.Spec
	device *specs.Device
}

// ReadRegistry reads directories of specs, the one of highest priority last. A missing directory is empty.
func ReadRegistry(host fs.ReadLinkFS, dirs ...string) *Registry {
	r := &Registry{Devices: []Resolved{}, Files: map[string][]string{}} // devices are never nil: JSON must have a list
	found := map[string][]definition{}
	for i, dir := range dirs {
		for file, spec := range r.readDir(host, dir) {
			for k := range spec.Devices {
				name := Qualified(spec.Kind, spec.Devices[k].Name)
				found[name] = append(found[name], definition{file, i, spec, &spec.Devices[k]})
				r.Files[file] = append(r.Files[file], name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		r.resolve(name, found[name])
	}
	return r
}

// readDir returns the valid specs of a directory by their files. It adds the others to the faults.
func (r *Registry) readDir(host fs.ReadLinkFS, dir string) map[string]*specs.Spec {
	entries, err := hostfs.ReadDir(host, dir, hostfs.MaxEntries)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Faults = append(r.Faults, Fault{File: dir, Reason: err.Error(), Unread: errors.Is(err, hostfs.ErrTooMany)})
	}
	valid := map[string]*specs.Spec{}
	for _, e := range entries {
		if ext := path.Ext(e.Name()); e.IsDir() || ext != ".json" && ext != ".yaml" {
			continue
		}
		file := path.Join(dir, e.Name())
		data, err := hostfs.ReadFile(host, file, int64(yamlread.Spec.Size))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		var spec *specs.Spec
		if err == nil {
			spec, err = ParseSpec(data)
		}
		if err != nil {
			r.Faults = append(r.Faults, Fault{File: file, Reason: err.Error()})
			continue
		}
		valid[file] = spec
	}
	return valid
}

// resolve adds a device. The definitions are in the order of the directories.
func (r *Registry) resolve(name string, all []definition) {
	slices.SortFunc(all, func(a, b definition) int {
		return cmp.Or(cmp.Compare(a.dir, b.dir), cmp.Compare(a.file, b.file))
	})
	files := make([]string, len(all))
	conflict := false
	for i, d := range all {
		files[i] = d.file
		conflict = conflict || i > 0 && all[i-1].dir == d.dir
	}
	if conflict {
		r.Conflicts = append(r.Conflicts, Conflict{name, files})
		return
	}
	last := len(all) - 1
	r.Devices = append(r.Devices, Resolved{Name: name, File: files[last], Overrides: files[:last:last],
		spec: all[last].spec, device: all[last].device})
}

// Find returns a device, or an error that says why a runtime does not resolve it.
func (r *Registry) Find(name string) (*Resolved, error) {
	i, ok := slices.BinarySearchFunc(r.Devices, name,
		func(d Resolved, name string) int { return cmp.Compare(d.Name, name) })
	if ok {
		return &r.Devices[i], nil
	}
	for _, c := range r.Conflicts {
		if c.Name == name {
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

// ErrUnresolved means that a runtime would not find a device.
var ErrUnresolved = errors.New("unresolvable CDI device")
