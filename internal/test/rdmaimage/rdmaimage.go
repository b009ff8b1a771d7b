// Package rdmaimage makes root file systems of containers with rdma-core, as distributions lay it out, for tests of
// what a container can use. The libraries have the tables that a dynamic linker reads, and no code.
package rdmaimage

import (
	"debug/elf"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/elftest"
)

// Image is a root file system.
type Image struct {
	LibDir string            // usr/lib64, usr/lib/x86_64-linux-gnu
	ABI    string            // the private ABI of libibverbs
	Files  map[string]string // by path, without a leading slash
	Links  map[string]string // targets by path
}

// Machine is that of the programs that run here.
var Machine = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]

// Triplet is Debian's name of it.
var Triplet = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + "-linux-gnu"

// Empty has no libraries.
func Empty() *Image { return &Image{Files: map[string]string{}, Links: map[string]string{}} }

// Debian is an image of Debian, Ubuntu or NVIDIA with libibverbs and providers.
func Debian(providers ...string) *Image { return glibc("usr/lib/"+Triplet, providers) }

// RHEL is an image of RHEL, Fedora or SUSE.
func RHEL(providers ...string) *Image { return glibc("usr/lib64", providers) }

func glibc(libDir string, providers []string) *Image {
	i := Empty()
	i.LibDir, i.ABI = libDir, "34"
	i.Links["lib"], i.Links["lib64"] = "usr/lib", "usr/lib64"
	i.Lib("libc.so.6", elftest.Lib{Defines: []string{"GLIBC_2.34"}})
	return i.verbs(providers)
}

// Alpine is an image with musl.
func Alpine(providers ...string) *Image {
	i := Empty()
	i.LibDir, i.ABI = "usr/lib", "34"
	return i.verbs(providers)
}

func (i *Image) verbs(providers []string) *Image {
	i.Lib("libnl-3.so.200", elftest.Lib{})
	i.Lib("libnl-route-3.so.200", elftest.Lib{Needed: []string{"libnl-3.so.200"}})
	i.Lib("libibverbs.so.1", i.Verbs())
	for _, name := range providers {
		i.Provider(name, i.ABI)
	}
	return i
}

// Verbs is libibverbs.
func (i *Image) Verbs() elftest.Lib {
	return elftest.Lib{
		Needed:  []string{"libnl-route-3.so.200", "libnl-3.so.200"},
		Defines: []string{"IBVERBS_1.0", "IBVERBS_1.1", "IBVERBS_PRIVATE_" + i.ABI},
		ROData: "lib%s-rdmav" + i.ABI + ".so\x00/etc/libibverbs.d\x00/" + i.LibDir + "/libibverbs/lib%s-rdmav" + i.ABI +
			".so\x00driver\x00",
	}
}

// Lib adds a library by its SONAME, as a link to a file.
func (i *Image) Lib(soname string, l elftest.Lib) {
	l.SOName = soname
	i.Write(path.Join(i.LibDir, soname+".0"), l)
	i.Links[path.Join(i.LibDir, soname)] = soname + ".0"
}

// Write adds a library at a path. It needs the C library of the image.
func (i *Image) Write(name string, l elftest.Lib) {
	l.Machine = Machine
	libc := "libc.so.6"
	if i.LibDir == "usr/lib" {
		libc = "libc.musl-x86_64.so.1"
	}
	l.Needed = append(slices.Clone(l.Needed), libc)
	i.Files[name] = string(l.Build())
}

// Provider adds a provider of a private ABI, and its name.
func (i *Image) Provider(name, abi string) {
	i.Write(i.ProviderPath(name), elftest.Lib{Needed: []string{"libibverbs.so.1"},
		Needs: map[string][]string{"libibverbs.so.1": {"IBVERBS_1.1", "IBVERBS_PRIVATE_" + abi}}})
	i.Files["etc/libibverbs.d/"+name+".driver"] = "driver " + name + "\n"
}

// ProviderPath is where libibverbs looks for a provider.
func (i *Image) ProviderPath(name string) string {
	return path.Join(i.LibDir, "libibverbs/lib"+name+"-rdmav"+i.ABI+".so")
}

// Remove removes files and links at and below paths.
func (i *Image) Remove(names ...string) *Image {
	for _, name := range names {
		below := func(p, _ string) bool { return p == name || strings.HasPrefix(p, name+"/") }
		maps.DeleteFunc(i.Files, below)
		maps.DeleteFunc(i.Links, below)
	}
	return i
}

// Move moves everything below a directory to another one.
func (i *Image) Move(from, to string) *Image {
	for _, m := range []map[string]string{i.Files, i.Links} {
		for name, value := range maps.Clone(m) {
			if rest, ok := strings.CutPrefix(name, from+"/"); ok {
				delete(m, name)
				m[to+"/"+rest] = value
			}
		}
	}
	return i
}

// Make writes the image below a directory. Everybody can read it, whatever the umask.
func (i *Image) Make(t testing.TB, dir string) {
	t.Helper()
	makeDir(t, dir)
	must.NoError(t, os.Chmod(dir, 0o755))
	for name, target := range i.Links {
		at := filepath.Join(dir, name)
		makeDir(t, filepath.Dir(at))
		if strings.HasPrefix(target, "usr/") {
			makeDir(t, filepath.Join(dir, target))
		}
		must.NoError(t, os.Symlink(target, at))
	}
	for name, data := range i.Files {
		at := filepath.Join(dir, name)
		makeDir(t, filepath.Dir(at))
		must.NoError(t, os.WriteFile(at, []byte(data), 0o755))
		must.NoError(t, os.Chmod(at, 0o755))
	}
}

// makeDir makes a directory and its parents. Everybody can read those that it makes, whatever the umask.
func makeDir(t testing.TB, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); err == nil {
		return
	}
	makeDir(t, filepath.Dir(dir))
	must.NoError(t, os.Mkdir(dir, 0o755))
	must.NoError(t, os.Chmod(dir, 0o755))
}
