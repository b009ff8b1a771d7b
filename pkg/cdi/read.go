package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"golang.org/x/sys/unix"
	cdiapi "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
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

// SpecFile is a file in a directory of specs.
type SpecFile struct {
	Dir, Path string
	// Mode is that of the file to which Path leads, 0 if it is not known.
	Mode fs.FileMode
	// Data is the content, nil if it was not read.
	Data []byte
	// Spec is nil if runtimes load no spec from the file. Err has the reason.
	Spec *specs.Spec
	Err  error
}

// ErrExtension means that runtimes ignore a file because of its name.
var ErrExtension = errors.New("runtimes read only files that end in .json or .yaml; rename it")

// Unread reports whether the file, or the directory, could not be read, so that a runtime may load specs from it.
func (f *SpecFile) Unread() bool {
	_, ok := errors.AsType[*fs.PathError](f.Err)
	return ok && !errors.Is(f.Err, unix.ENOTDIR) && !errors.Is(f.Err, unix.ELOOP)
}

// Devices returns the qualified names of the devices that the file defines.
func (f *SpecFile) Devices() (names []string) {
	if f.Spec != nil {
		for i := range f.Spec.Devices {
			names = append(names, Qualified(f.Spec.Kind, f.Spec.Devices[i].Name))
		}
	}
	return names
}

// ReadDirs reads the files of directories that end in .json, .yaml or .yml, in the order of the directories and of
// their names. A missing directory has none. A directory that cannot be read is a SpecFile whose Path is Dir.
func ReadDirs(host fs.ReadLinkFS, dirs ...string) (files []SpecFile) {
	for i, dir := range dirs {
		if slices.Contains(dirs[:i], dir) {
			continue
		}
		entries, err := hostfs.ReadDir(host, dir, hostfs.MaxEntries)
		if errors.Is(err, hostfs.ErrTooMany) {
			err = fmt.Errorf("%w; remove files that are no CDI specs", err)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			files = append(files, SpecFile{Dir: dir, Path: dir, Err: err})
		}
		for _, e := range entries {
			if ext := path.Ext(e.Name()); !e.IsDir() && (ext == ".json" || ext == ".yaml" || ext == ".yml") {
				files = append(files, ReadFile(host, path.Join(dir, e.Name())))
			}
		}
	}
	return files
}

// ReadFile reads the spec of any program. It opens only a regular file of bounded size. See ParseSpec.
func ReadFile(host fs.ReadLinkFS, name string) SpecFile {
	f := SpecFile{Dir: path.Dir(name), Path: name}
	info, err := hostfs.Stat(host, name)
	if err != nil {
		f.Err = err
		return f
	}
	f.Mode = info.Mode()
	f.Data, err = hostfs.ReadFile(host, name, int64(yamlread.Spec.Size))
	switch {
	case path.Ext(name) != ".json" && path.Ext(name) != ".yaml":
		f.Err = ErrExtension
	case errors.Is(err, hostfs.ErrNotRegular):
		f.Err = errors.New("it is no regular file: runtimes would wait for it, or pass over it")
	case errors.Is(err, hostfs.ErrTooLarge):
		f.Err = fmt.Errorf("it is larger than %d MiB", yamlread.Spec.Size>>20)
	case err != nil:
		f.Err = err
	default:
		f.Spec, f.Err = ParseSpec(f.Data)
	}
	return f
}
