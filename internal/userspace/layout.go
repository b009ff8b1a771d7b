package userspace

import (
	"debug/elf"
	"fmt"
	"slices"
	"strings"
)

// layout is what differs between machines.
type layout struct {
	name    string // as people say it
	triplet string // Debian's directory name
	musl    string // the dynamic linker of musl
}

var layouts = map[elf.Machine]layout{
	elf.EM_X86_64:  {"x86-64", "x86_64-linux-gnu", "lib/ld-musl-x86_64.so.1"},
	elf.EM_AARCH64: {"arm64", "aarch64-linux-gnu", "lib/ld-musl-aarch64.so.1"},
}

func layoutOf(m elf.Machine) (layout, error) {
	l, ok := layouts[m]
	if !ok {
		return layout{}, fmt.Errorf("find user space for machine %v: only x86-64 and arm64 are known", m)
	}
	return l, nil
}

// multiarch are the directories compiled into the dynamic linker of Debian and
// Ubuntu, lib64 those of RHEL, Fedora and SUSE, and plain those of distributions
// without either, in the order of search. fs names: without a leading slash.
func (l layout) multiarch() []string {
	return []string{"lib/" + l.triplet, "usr/lib/" + l.triplet, "lib", "usr/lib"}
}

var (
	lib64 = []string{"lib64", "usr/lib64"}
	plain = []string{"lib", "usr/lib"}
)

// mountDirs are the directories of a container in which a SONAME is mounted: one
// that each family of distributions searches.
func (l layout) mountDirs() []string {
	return []string{"/usr/lib/" + l.triplet, "/usr/lib64"}
}

// glibcNames are the libraries that are parts of glibc. They come from the image:
// its dynamic linker and its libc must be of one build.
var glibcNames = []string{
	"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1",
	"libresolv.so.2", "libutil.so.1", "libanl.so.1", "libmvec.so.1",
}

func partOfGLIBC(soname string) bool {
	return strings.HasPrefix(soname, "ld-linux") || slices.Contains(glibcNames, soname)
}

// muslLibrary returns the first of some needed libraries that is the C library of musl, ""
// without one. Distributions call it libc.musl-x86_64.so.1 or libc.so, which for glibc is no
// library but a script of the linker.
func muslLibrary(needed []string) string {
	for _, name := range needed {
		if name == "libc.so" || strings.HasPrefix(name, "libc.musl-") || strings.HasPrefix(name, "ld-musl-") {
			return name
		}
	}
	return ""
}
