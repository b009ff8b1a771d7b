package userspace

import (
	"debug/elf"
	"io/fs"
	"path"
	"testing/fstest"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/rdmacore"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/elftest"
)

// host is a root file system with rdma-core, made for a test.
type host struct {
	machine elf.Machine
	libdir  string // usr/lib64, usr/lib/x86_64-linux-gnu
	abi     string
	glibc   string // that its libraries need; "" where they need musl
	files   fstest.MapFS
}

const multiarchDir = "usr/lib/x86_64-linux-gnu"

func debian() *host {
	return newHost(host{machine: elf.EM_X86_64, libdir: "usr/lib/x86_64-linux-gnu", abi: "34", glibc: "GLIBC_2.34"})
}

func rhel() *host {
	return newHost(host{machine: elf.EM_AARCH64, libdir: "usr/lib64", abi: "57", glibc: "GLIBC_2.34"})
}

// muslLibc is the C library of Alpine, a link to its dynamic linker.
const muslLibc = "libc.musl-x86_64.so.1"

func alpine() *host {
	h := newHost(host{machine: elf.EM_X86_64, libdir: "usr/lib", abi: "34"})
	h.remove("usr/lib/libc.so.6")
	h.put("usr/lib/ld-musl-x86_64.so.1", elftest.Lib{Machine: h.machine, SOName: muslLibc}.Build())
	h.link("usr/lib/"+muslLibc, "/lib/ld-musl-x86_64.so.1")
	return h
}

// newHost makes a host with a libc and all of a small rdma-core.
func newHost(h host) *host {
	h.files = fstest.MapFS{}
	h.link("lib", "usr/lib")
	h.link("lib64", "usr/lib64")
	h.libc("2.2.5", "2.17", "2.34", "2.36")
	h.install("libnl-3.so.200", elftest.Lib{Defines: []string{"libnl_3"}})
	h.install("libnl-route-3.so.200", elftest.Lib{Needed: []string{"libnl-3.so.200"},
		Needs: map[string][]string{"libnl-3.so.200": {"libnl_3"}}, Defines: []string{"libnl_3"}})
	h.install("libibverbs.so.1", h.verbs())
	h.install("librdmacm.so.1", h.client("IBVERBS_1.1"))
	h.install("libibumad.so.3", elftest.Lib{})
	h.install("libibmad.so.5", elftest.Lib{Needed: []string{"libibumad.so.3"}})
	for _, name := range []string{"mlx5", "efa"} {
		h.install("lib"+name+".so.1", h.client(rdmacore.PrivateVersion+h.abi))
		h.link(h.provider(name), "../lib"+name+".so.1.0")
		h.name(name)
	}
	plain := h.client(rdmacore.PrivateVersion + h.abi)
	h.write(h.provider("rxe"), plain)
	h.name("rxe")
	return &h
}

func (h *host) verbs() elftest.Lib {
	return elftest.Lib{
		Needed:  []string{"libnl-route-3.so.200", "libnl-3.so.200"},
		Defines: []string{"IBVERBS_1.0", "IBVERBS_1.1", rdmacore.PrivateVersion + h.abi},
		ROData: "lib%s-rdmav" + h.abi + ".so\x00/etc/libibverbs.d\x00/" +
			h.libdir + "/libibverbs/lib%s-rdmav" + h.abi + ".so\x00driver\x00",
	}
}

// client needs a version of libibverbs.
func (h *host) client(version string) elftest.Lib {
	return elftest.Lib{Needed: []string{"libibverbs.so.1"}, Needs: map[string][]string{"libibverbs.so.1": {version}}}
}

// libc installs a glibc of some versions.
func (h *host) libc(versions ...string) {
	l := elftest.Lib{Machine: h.machine, SOName: "libc.so.6"}
	for _, v := range versions {
		l.Defines = append(l.Defines, "GLIBC_"+v)
	}
	h.put(path.Join(h.libdir, "libc.so.6"), l.Build())
}

// install installs a library by its SONAME, as a link to a file.
func (h *host) install(soname string, l elftest.Lib) {
	l.SOName = soname
	h.write(path.Join(h.libdir, soname+".0"), l)
	h.link(path.Join(h.libdir, soname), soname+".0")
}

// write writes a library that needs the host's C library.
func (h *host) write(name string, l elftest.Lib) {
	l.Machine = h.machine
	if h.glibc == "" {
		l.Needed = append(l.Needed[:len(l.Needed):len(l.Needed)], muslLibc)
		h.put(name, l.Build())
		return
	}
	needs := map[string][]string{"libc.so.6": {"GLIBC_2.2.5", h.glibc}}
	for library, versions := range l.Needs {
		needs[library] = versions
	}
	l.Needs = needs
	l.Needed = append(l.Needed[:len(l.Needed):len(l.Needed)], "libc.so.6")
	h.put(name, l.Build())
}

// provider is the file of a provider.
func (h *host) provider(name string) string {
	return path.Join(h.libdir, "libibverbs/lib"+name+"-rdmav"+h.abi+".so")
}

// name tells libibverbs of a provider.
func (h *host) name(provider string) {
	h.put("etc/libibverbs.d/"+provider+".driver", []byte("driver "+provider+"\n"))
}

func (h *host) put(name string, data []byte) {
	h.files[name] = &fstest.MapFile{Data: data, Mode: 0o644}
}

func (h *host) link(name, target string) {
	h.files[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

func (h *host) remove(names ...string) {
	for _, name := range names {
		delete(h.files, name)
	}
}

func (h *host) find(drivers ...string) (*Plan, error) {
	return Find(h.files, Options{Machine: h.machine, Drivers: drivers})
}
