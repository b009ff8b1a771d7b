package userspace

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/rdmacore"
)

// Problem is a reason why an image does not, or may not, work with a plan.
type Problem struct {
	Library string `json:"library"` // "" if the problem concerns all libraries
	Text    string `json:"text"`
}

func (p Problem) String() string { return p.Text }

// CheckImage compares a plan with the root file system of an unpacked image. It reads the same files as the image's
// dynamic linker. It cannot see other settings of a container: LD_LIBRARY_PATH, or a RUNPATH in its programs. The
// result is in a stable order, and empty if the image works with the plan.
func CheckImage(image fs.ReadLinkFS, plan *Plan) []Problem {
	ld, err := newLinker(image, plan.Machine)
	if err != nil {
		return []Problem{{"", err.Error()}}
	}
	c := &imageCheck{ld: ld, plan: plan, mounts: map[string]*Library{}}
	libc, err := ld.find("libc.so.6")
	if err == nil && rdmacore.MuslLibrary(libc.Needed) != "" { // built for musl: it only stands in for glibc's
		err = fmt.Errorf("find library %q: %w", "libc.so.6", fs.ErrNotExist)
	}
	if err != nil {
		c.noLibc(err)
		return c.problems
	}
	for i := range plan.Libraries {
		for _, at := range plan.Libraries[i].mounts {
			c.mounts[c.place(at)] = &plan.Libraries[i]
		}
	}
	c.glibc(libc)
	for i := range plan.Libraries {
		if !plan.Libraries[i].Provider {
			c.reached(&plan.Libraries[i])
		}
	}
	c.replaced()
	c.mixed()
	return c.problems
}

type imageCheck struct {
	ld       *linker
	plan     *Plan
	mounts   map[string]*Library // by fs name in the image, links resolved
	problems []Problem
}

func (c *imageCheck) add(library, format string, args ...any) {
	c.problems = append(c.problems, Problem{library, fmt.Sprintf(format, args...)})
}

// place returns the path where a runtime mounts. A runtime follows the symbolic links of the image, and creates what
// does not exist.
func (c *imageCheck) place(name string) string {
	name = strings.TrimPrefix(name, "/")
	if at, err := hostfs.Resolve(c.ld.root, name); at != "" && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		return at
	}
	return name
}

func (c *imageCheck) noLibc(err error) {
	for machine, other := range rdmacore.Layouts {
		if ld, _ := newLinker(c.ld.root, machine); machine != c.plan.Machine && ld.Has("libc.so.6") {
			c.add("libc.so.6", "the image is for %s, the host's libraries for %s", other.Name, c.ld.Layout.Name)
			return
		}
	}
	_, musl := hostfs.Stat(c.ld.root, c.ld.Layout.Musl)
	switch {
	case musl == nil:
		c.add("libc.so.6", "the image's C library is musl (/%s), which cannot load libraries built for glibc: install "+
			"rdma-core in the image", c.ld.Layout.Musl)
	case !errors.Is(err, fs.ErrNotExist):
		c.add("libc.so.6", "the image's C library does not fit: %v", err)
	default:
		c.add("libc.so.6", "the image has no glibc: nothing in it can load the host's libraries")
	}
}

// glibc compares the image's glibc with the needs of each library. The problem names the libraries that need the newest
// version.
func (c *imageCheck) glibc(libc *found) {
	has := newestGLIBC(libc.Defines)
	var needed glibcVersion
	var names []string
	for i := range c.plan.Libraries {
		lib := &c.plan.Libraries[i]
		switch v := lib.glibc(); {
		case needed.less(v):
			needed, names = v, []string{lib.Name}
		case needed == v:
			names = append(names, lib.Name)
		}
	}
	if has.less(needed) {
		c.add(names[0], "the image's glibc %v is older than %v, which is needed by %s: use an image with a newer "+
			"distribution, or install rdma-core in the image",
			has, needed, list(names))
		return
	}
	c.features(libc)
}

// features reports needed glibc versions without a number, such as GLIBC_ABI_DT_RELR, that the image's glibc lacks.
func (c *imageCheck) features(libc *found) {
	for _, lib := range c.plan.Libraries {
		for _, version := range lib.Needs["libc.so.6"] {
			if _, numbered := parseGLIBC(version); !numbered && !slices.Contains(libc.Defines, version) {
				c.add(lib.Name, "the image's glibc lacks %s, which %s needs", version, lib.Name)
			}
		}
	}
}

// list names the first three of several names, and counts the others.
func list(names []string) string { return text.First(names, 3, ", ") }

// replaced reports symbol versions that the image's own files have and the host's, mounted over them, lack. A program
// of the image that needs such a version fails to start. replaced ignores the private ABI, because programs do not use
// it.
func (c *imageCheck) replaced() {
	for _, at := range slices.Sorted(maps.Keys(c.mounts)) {
		lib := c.mounts[at]
		own, err := c.ld.open(at)
		if lib == nil || err != nil {
			continue
		}
		var lost []string
		for _, version := range own.Defines {
			if !slices.Contains(lib.Defines, version) && !strings.HasPrefix(version, rdmacore.PrivateVersion) {
				lost = append(lost, version)
			}
		}
		if len(lost) > 0 {
			c.add(lib.Name, "the image's own /%s has %s, which the host's %s, mounted over it, lacks: a program that needs "+
				"it may not start: use the image's user space",
				at, list(lost), lib.HostPath)
		}
	}
}

// reached reports a library that the image's dynamic linker would not find at its mount, or would find elsewhere first.
func (c *imageCheck) reached(lib *Library) {
	for _, at := range c.ld.Candidates(lib.Name) {
		at = c.place(at)
		if there := c.mounts[at]; there != nil {
			if there.Name != lib.Name && !there.Provider {
				c.add(lib.Name, "the image looks for %s at /%s, where %s is mounted", lib.Name, at, there.HostPath)
			}
			return
		}
		if _, err := c.ld.open(at); err == nil {
			c.add(lib.Name, "the image finds its own %s at /%s before the host's: remove it, or use the image's user space",
				lib.Name, at)
			return
		}
	}
	c.add(lib.Name, "the image looks for libraries in /%s, where %s is not mounted", strings.Join(c.ld.Dirs, ", /"),
		lib.Name)
}

// mixed reports the image's own providers that would load into the host's libibverbs. They may fail even if their
// private ABI numbers are equal, because the functions may differ.
func (c *imageCheck) mixed() {
	names := map[string]bool{}
	for _, provider := range rdmacore.Providers {
		names["lib"+provider+".so.1"] = true
	}
	for _, lib := range c.plan.Libraries {
		delete(names, lib.Name)
	}
	for name := range names {
		if f, err := c.ld.find(name); err != nil || c.mounts[f.real] != nil {
			delete(names, name)
		}
	}
	v := rdmacore.Verbs{ABI: c.plan.ABI, ProviderDir: c.plan.providerDir}
	installed, _ := installed(c.ld.root, &v)
	for _, driver := range installed {
		if file := v.File(driver); slices.Contains(c.plan.configured, driver) && c.mounts[c.place(file)] == nil {
			names[path.Base(file)] = true
		}
	}
	if own := slices.Sorted(maps.Keys(names)); len(own) > 0 {
		c.add(own[0], "the image's own %s would be used with the host's libibverbs: install it on the host too, or use "+
			"the image's user space", list(own))
	}
}
