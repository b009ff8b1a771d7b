package rdmacore

import (
	"debug/elf"
	"slices"
	"strings"
)

// Layout contains the names that differ between machines.
type Layout struct {
	Name    string // for messages
	Triplet string // Debian's directory name
	Musl    string // the dynamic linker of musl
}

// Layouts are the known machines.
var Layouts = map[elf.Machine]Layout{
	elf.EM_X86_64:  {"x86-64", "x86_64-linux-gnu", "lib/ld-musl-x86_64.so.1"},
	elf.EM_AARCH64: {"arm64", "aarch64-linux-gnu", "lib/ld-musl-aarch64.so.1"},
}

// multiarch returns the directories compiled into the dynamic linker of Debian and Ubuntu. lib64 are the directories of
// RHEL, Fedora and SUSE. plain are the directories of other distributions. All are in the order of search, and are fs
// names: without a leading slash.
func (l Layout) multiarch() []string {
	return []string{"lib/" + l.Triplet, "usr/lib/" + l.Triplet, "lib", "usr/lib"}
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

// PartOfGLIBC reports whether a library is a part of glibc.
func PartOfGLIBC(soname string) bool {
	return strings.HasPrefix(soname, "ld-linux") || slices.Contains(glibcNames, soname)
}

// MuslLibrary returns the first of the needed libraries that is the C library of musl, or "". Distributions call it
// libc.musl-x86_64.so.1 or libc.so. In glibc, libc.so is a linker script and not a library.
func MuslLibrary(needed []string) string {
	for _, name := range needed {
		if name == "libc.so" || strings.HasPrefix(name, "libc.musl-") || strings.HasPrefix(name, "ld-musl-") {
			return name
		}
	}
	return ""
}
