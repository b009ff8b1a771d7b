package userspace

import (
	"debug/elf"
	"slices"
	"strings"
)

// layout contains the names that differ between machines.
type layout struct {
	name    string // for messages
	triplet string // Debian's directory name
	musl    string // the dynamic linker of musl
}

var layouts = map[elf.Machine]layout{
	elf.EM_X86_64:  {"x86-64", "x86_64-linux-gnu", "lib/ld-musl-x86_64.so.1"},
	elf.EM_AARCH64: {"arm64", "aarch64-linux-gnu", "lib/ld-musl-aarch64.so.1"},
}

// multiarch returns the directories compiled into the dynamic linker of Debian and Ubuntu. lib64 are the directories of
// RHEL, Fedora and SUSE. plain are the directories of other distributions. All are in the order of search, and are fs
// names: without a leading slash.
func (l layout) multiarch() []string {
	return []string{"lib/" + l.triplet, "usr/lib/" + l.triplet, "lib", "usr/lib"}
}

var (
	lib64 = []string{"lib64", "usr/lib64"}
	plain = []string{"lib", "usr/lib"}
)

// glibcNames are the libraries that are parts of glibc. The image must provide them, because its dynamic linker and its
// libc must come from one build.
var glibcNames = []string{
	"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1",
	"libresolv.so.2", "libutil.so.1", "libanl.so.1", "libmvec.so.1",
}

func partOfGLIBC(soname string) bool {
	return strings.HasPrefix(soname, "ld-linux") || slices.Contains(glibcNames, soname)
}

// muslLibrary returns the first of the needed libraries that is the C library of musl, or "". Distributions call it
// libc.musl-x86_64.so.1 or libc.so. In glibc, libc.so is a linker script and not a library.
func muslLibrary(needed []string) string {
	for _, name := range needed {
		if name == "libc.so" || strings.HasPrefix(name, "libc.musl-") || strings.HasPrefix(name, "ld-musl-") {
			return name
		}
	}
	return ""
}
