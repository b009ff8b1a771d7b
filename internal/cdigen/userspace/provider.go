package userspace

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/rdmacore"
)

// addProviders adds every provider of the host, and its direct-verbs library. It returns an error if a provider that an
// HCA needs does not work; the error names the kernel driver of the HCA. It adds the other providers as well, so that
// the host's libibverbs never loads a provider of the image.
func (s *search) addProviders(drivers []string) error {
	configured, skipped, err := readConfig(s.ld.root, s.configDir)
	if err != nil {
		return err
	}
	for _, name := range skipped {
		s.warn("%s is a symbolic link, which leads nowhere in a container: replace it by a copy", name)
	}
	wanted := wantedProviders(drivers)
	installed, _ := installed(s.ld.root, &s.verbs)
	names := slices.Concat(configured, installed, slices.Collect(maps.Keys(wanted)))
	slices.Sort(names)
	var errs []error
	for _, name := range slices.Compact(names) {
		err := s.addProvider(name)
		named := slices.Contains(configured, name)
		if err == nil && !named && wanted[name] != nil {
			err = s.unnamed(name)
		}
		switch {
		case err != nil && wanted[name] != nil:
			errs = append(errs, fmt.Errorf("no provider for HCAs of driver %s: %w", strings.Join(wanted[name], ", "), err))
		case err != nil:
			s.warn("provider %s is left out: %v", name, err)
		case named:
			s.drivers = append(s.drivers, name)
		}
	}
	return errors.Join(errs...)
}

// wantedProviders returns the providers that the kernel drivers need, each with the names of its drivers.
func wantedProviders(drivers []string) map[string][]string {
	wanted := map[string][]string{}
	for _, driver := range slices.Compact(slices.Sorted(slices.Values(drivers))) {
		name, _ := rdmacore.ProviderOf(driver)
		wanted[name] = append(wanted[name], cmp.Or(driver, "unknown to sysfs"))
	}
	return wanted
}

// unnamed returns the error for a provider that exists, but that libibverbs would not load because no file names it.
func (s *search) unnamed(name string) error {
	dir := s.verbs.ConfigDir
	return fmt.Errorf("no file in %s names %s, so libibverbs does not load %s: write the line \"driver %s\" into "+
		"%s/%s.driver",
		dir, name, s.verbs.File(name), name, dir, name)
}

// addProvider adds one provider, and its direct-verbs library if it has one.
func (s *search) addProvider(name string) error {
	f, at, err := s.findProvider(name)
	if err != nil {
		return err
	}
	if !slices.Contains(f.Needs[rdmacore.VerbsLibrary], rdmacore.PrivateVersion+s.verbs.ABI) {
		return s.otherABI(f)
	}
	lib := &Library{Name: path.Base(at[0]), HostPath: "/" + f.path, Needs: f.Needs, Defines: f.Defines,
		mounts: at}
	if f.SOName != "" && f.SOName != lib.Name {
		if err := s.addDirect(f); err != nil {
			return err
		}
	}
	return s.add(lib, f)
}

// addDirect adds a provider under its SONAME too. The dynamic linker recognizes a loaded file by its inode, so both
// names are one library.
func (s *search) addDirect(provider *found) error {
	direct, err := s.ld.find(provider.SOName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		direct = provider // the host has no link to it
	case err != nil:
		return err
	case direct.real != provider.real:
		s.warn("/%s and the provider /%s are two files: reinstall rdma-core", direct.path, provider.path)
	}
	return s.add(library(s.ld.Layout, provider.SOName, direct), direct)
}

// findProvider finds the file of a provider in the same order as libibverbs: at the provider's own path, then by name
// through the dynamic linker. It also returns the paths where a container needs the file.
func (s *search) findProvider(name string) (*found, []string, error) {
	file := s.verbs.File(name)
	f, err := s.ld.open(strings.TrimPrefix(file, "/"))
	if err == nil {
		return f, []string{file}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(name, "/") {
		return nil, nil, err
	}
	if f, err := s.ld.find(path.Base(file)); err == nil {
		lib := library(s.ld.Layout, path.Base(file), f)
		return f, lib.mounts, nil
	}
	return nil, nil, s.missing(name, file)
}

// missing returns the error for a provider without a file. The error names a file of another ABI, if there is one.
func (s *search) missing(name, file string) error {
	_, others := installed(s.ld.root, &s.verbs)
	for _, other := range others {
		if strings.HasPrefix(path.Base(other), "lib"+name+"-rdmav") {
			return fmt.Errorf("%s does not exist, only %s: /%s is of private ABI %s: install both from one build of rdma-core",
				file, other, s.verbs.Path, s.verbs.ABI)
		}
	}
	return fmt.Errorf("%s does not exist: %s", file, installProviders)
}

// otherABI returns the error for a provider whose private ABI differs from the ABI in its file name.
func (s *search) otherABI(f *found) error {
	return fmt.Errorf("/%s is of private ABI %s, but /%s has %s: install both from one build of rdma-core", f.path,
		rdmacore.PrivateABIs(f.Needs[rdmacore.VerbsLibrary]), s.verbs.Path, s.verbs.ABI)
}
