package userspace

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/rdmacore"
)

// Options say what Find looks for.
type Options struct {
	// Machine is the machine of the host and of the containers: EM_X86_64 or EM_AARCH64.
	Machine elf.Machine
	// Drivers are the kernel drivers of the HCAs (field Driver of rdma.HCA). Find returns no plan unless each of them
	// has a working provider.
	Drivers []string
	// MAD adds libibumad and libibmad, which fabric tools need.
	MAD bool
}

// packages names the package to install for each library, for each family of distributions.
var packages = map[string]string{
	rdmacore.VerbsLibrary: "install libibverbs1 (Debian, Ubuntu, SUSE) or libibverbs (RHEL, Fedora)",
	"librdmacm.so.1":      "install librdmacm1 (Debian, Ubuntu, SUSE) or librdmacm (RHEL, Fedora)",
	"libibumad.so.3":      "install libibumad3 (Debian, Ubuntu, SUSE) or libibumad (RHEL, Fedora)",
	"libibmad.so.5":       "install libibmad5 (Debian, Ubuntu, SUSE) or infiniband-diags (RHEL, Fedora)",
}

const installProviders = "install ibverbs-providers (Debian, Ubuntu) or libibverbs (RHEL, Fedora, SUSE), or " +
	"rdma-core of the HCA's vendor"

// expected are the dependencies that a plan may mount over an image's own without a warning.
var expected = []string{"libnl-3.so.200", "libnl-route-3.so.200"}

// search collects the content of a plan.
type search struct {
	ld        *linker
	verbs     rdmacore.Verbs
	configDir string // fs name on the host
	libraries map[string]*Library
	drivers   []string // the configured providers that are in libraries
	warnings  []string
}

// Find looks for the RDMA user space of a host. root is the host's root directory. Find fails closed: if a library,
// or a working provider for one of the drivers, is missing, it returns no plan. The error then names everything that is
// missing, and the packages to install. A broken provider that no HCA of the host needs is only a warning.
func Find(root fs.ReadLinkFS, opt Options) (*Plan, error) {
	ld, err := newLinker(root, opt.Machine)
	if err != nil {
		return nil, err
	}
	s := &search{ld: ld, libraries: map[string]*Library{}}
	if err := s.findVerbs(); err != nil {
		return nil, fmt.Errorf("find the host's RDMA user space: %w", err)
	}
	names := []string{"librdmacm.so.1"}
	if opt.MAD {
		names = append(names, "libibmad.so.5", "libibumad.so.3")
	}
	var errs []error
	for _, name := range names {
		_, err := s.addLibrary(name)
		errs = append(errs, err)
	}
	errs = append(errs, s.addProviders(opt.Drivers))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("find the host's RDMA user space: %w", err)
	}
	return newPlan(s), nil
}

// findVerbs finds libibverbs and its configuration directory.
func (s *search) findVerbs() error {
	lib, err := s.addLibrary(rdmacore.VerbsLibrary)
	if err != nil {
		return err
	}
	if s.verbs, err = rdmacore.ReadVerbs(lib.Object, lib.path); err != nil {
		return err
	}
	s.configDir, err = hostfs.Resolve(s.ld.root, strings.TrimPrefix(s.verbs.ConfigDir, "/"))
	if err != nil {
		return fmt.Errorf("find the names of providers in %s: %w: %s", s.verbs.ConfigDir, err, installProviders)
	}
	return nil
}

// addLibrary adds a library by its SONAME, and all its dependencies.
func (s *search) addLibrary(name string) (*found, error) {
	f, err := s.ld.find(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, packages[name])
	}
	return f, s.add(library(s.ld.Layout, name, f), f)
}

// add adds a library and all its dependencies. If a dependency is missing, or lacks a symbol version, it adds nothing.
func (s *search) add(lib *Library, f *found) error {
	set := maps.Clone(s.libraries)
	set[lib.Name] = lib
	if err := s.close(set, lib, f); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if _, old := s.libraries[name]; !old && unexpected(set[name], lib) {
			s.warn("%s needs %s, which is mounted over an image's own: programs of the image may want another version", lib.Name,
				name)
		}
	}
	s.libraries = set
	return nil
}

func unexpected(lib, wanted *Library) bool {
	return lib != wanted && packages[lib.Name] == "" && !slices.Contains(expected, lib.Name)
}

// close adds the dependencies of a library to the set, recursively.
func (s *search) close(set map[string]*Library, lib *Library, f *found) error {
	if name := rdmacore.MuslLibrary(f.Needed); name != "" {
		return fmt.Errorf("add %s: it is built for musl (it needs %s), and images with glibc cannot load it: install "+
			"rdma-core in the image", lib.HostPath, name)
	}
	for _, name := range f.Needed {
		if rdmacore.PartOfGLIBC(name) {
			continue
		}
		if set[name] == nil {
			dep, err := s.ld.find(name)
			if err != nil {
				return fmt.Errorf("add %s: %w", lib.HostPath, err)
			}
			set[name] = library(s.ld.Layout, name, dep)
			if err := s.close(set, set[name], dep); err != nil {
				return err
			}
		}
		if err := checkVersions(lib, set[name]); err != nil {
			return err
		}
	}
	return nil
}

// checkVersions returns an error if dep lacks a symbol version that lib needs from it. A library without any version
// satisfies every need. The dynamic linker does the same (match_symbol in glibc's elf/dl-version.c). Debian 12 and 13
// build libnl without versions.
func checkVersions(lib, dep *Library) error {
	if len(dep.Defines) == 0 {
		return nil
	}
	for _, version := range lib.Needs[dep.Name] {
		if slices.Contains(dep.Defines, version) {
			continue
		}
		if abi, ok := strings.CutPrefix(version, rdmacore.PrivateVersion); ok {
			return fmt.Errorf("add %s: it is of private ABI %s, but %s has %s: install both from one build of rdma-core",
				lib.HostPath, abi, dep.HostPath, rdmacore.PrivateABIs(dep.Defines))
		}
		return fmt.Errorf("add %s: it needs %s of %s, which does not have it: install both from one source", lib.HostPath,
			version, dep.HostPath)
	}
	return nil
}

func (s *search) warn(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}
