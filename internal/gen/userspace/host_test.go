package userspace

import (
	"debug/elf"
	"io/fs"
	"path"
	"testing/fstest"
)

// host is a root file system with rdma-core, made for a test.
type host struct {
	machine elf.Machine
	libdir  string // usr/lib64, usr/lib/x86_64-linux-gnu
	abi     string
	glibc   string // that its libraries need; "" where they need musl
	files   fstest.MapFS
}

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
	h.put("usr/lib/ld-musl-x86_64.so.1", lib{machine: h.machine, soname: muslLibc}.build())
	h.link("usr/lib/"+muslLibc, "/lib/ld-musl-x86_64.so.1")
	return h
}

// newHost makes a host with a libc and all of a small rdma-core.
func newHost(h host) *host {
	h.files = fstest.MapFS{}
	h.link("lib", "usr/lib")
	h.link("lib64", "usr/lib64")
	h.libc("2.2.5", "2.17", "2.34", "2.36")
	h.install("libnl-3.so.200", lib{defines: []string{"libnl_3"}})
	h.install("libnl-route-3.so.200", lib{needed: []string{"libnl-3.so.200"},
		needs: map[string][]string{"libnl-3.so.200": {"libnl_3"}}, defines: []string{"libnl_3"}})
	h.install("libibverbs.so.1", h.verbs())
	h.install("librdmacm.so.1", h.client("IBVERBS_1.1"))
	h.install("libibumad.so.3", lib{})
	h.install("libibmad.so.5", lib{needed: []string{"libibumad.so.3"}})
	for _, name := range []string{"mlx5", "efa"} {
		h.install("lib"+name+".so.1", h.client(privateVersion+h.abi))
		h.link(h.provider(name), "../lib"+name+".so.1.0")
		h.name(name)
	}
	plain := h.client(privateVersion + h.abi)
	h.write(h.provider("rxe"), plain)
	h.name("rxe")
	return &h
}

func (h *host) verbs() lib {
	return lib{
		needed:  []string{"libnl-route-3.so.200", "libnl-3.so.200"},
		defines: []string{"IBVERBS_1.0", "IBVERBS_1.1", privateVersion + h.abi},
		rodata: "lib%s-rdmav" + h.abi + ".so\x00/etc/libibverbs.d\x00/" +
			h.libdir + "/libibverbs/lib%s-rdmav" + h.abi + ".so\x00driver\x00",
	}
}

// client needs a version of libibverbs.
func (h *host) client(version string) lib {
	return lib{needed: []string{"libibverbs.so.1"}, needs: map[string][]string{"libibverbs.so.1": {version}}}
}

// libc installs a glibc of some versions.
func (h *host) libc(versions ...string) {
	l := lib{machine: h.machine, soname: "libc.so.6"}
	for _, v := range versions {
		l.defines = append(l.defines, "GLIBC_"+v)
	}
	h.put(path.Join(h.libdir, "libc.so.6"), l.build())
}

// install installs a library by its SONAME, as a link to a file.
func (h *host) install(soname string, l lib) {
	l.soname = soname
	h.write(path.Join(h.libdir, soname+".0"), l)
	h.link(path.Join(h.libdir, soname), soname+".0")
}

// write writes a library that needs the host's C library.
func (h *host) write(name string, l lib) {
	l.machine = h.machine
	if h.glibc == "" {
		l.needed = append(l.needed[:len(l.needed):len(l.needed)], muslLibc)
		h.put(name, l.build())
		return
	}
	needs := map[string][]string{"libc.so.6": {"GLIBC_2.2.5", h.glibc}}
	for library, versions := range l.needs {
		needs[library] = versions
	}
	l.needs = needs
	l.needed = append(l.needed[:len(l.needed):len(l.needed)], "libc.so.6")
	h.put(name, l.build())
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
