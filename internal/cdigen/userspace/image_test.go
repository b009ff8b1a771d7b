package userspace

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/elftest"
)

const multiarchDir = "usr/lib/x86_64-linux-gnu"

// newImage makes a root file system with a libc and without rdma-core.
func newImage(machine elf.Machine, libdir string, glibc ...string) *host {
	h := &host{machine: machine, libdir: libdir, abi: "34", glibc: "GLIBC_2.2.5", files: fstest.MapFS{}}
	h.link("lib", "usr/lib")
	h.link("lib64", "usr/lib64")
	h.libc(glibc...)
	return h
}

func debianImage() *host { return newImage(elf.EM_X86_64, multiarchDir, "2.2.5", "2.34", "2.36") }

// TestCheckImage compares a Debian host's plan with images that have one fault, or
// none.
func TestCheckImage(t *testing.T) {
	own := func(h *host, soname string, l elftest.Lib) { h.install(soname, l) }
	for _, tt := range []struct {
		name  string
		image func() *host
		say   string // in the one problem; "" for none
	}{
		{"debian", debianImage, ""},
		{"rhel", func() *host { return newImage(elf.EM_X86_64, "usr/lib64", "2.2.5", "2.34") }, ""},
		{"debian with the same rdma-core", debian, ""},
		{"one directory for all", func() *host {
			h := newImage(elf.EM_X86_64, "usr/lib", "2.34", "2.42")
			h.link("lib64", "usr/lib")
			h.link("usr/lib64", "lib")
			return h
		}, ""},
		{"cached before the upgrade", func() *host {
			h := debianImage()
			h.put("etc/ld.so.cache", elftest.LDConfig([][2]string{{"libibverbs.so.1", "/lib/x86_64-linux-gnu/libibverbs.so.1"}}))
			return h
		}, ""},
		{"older glibc", func() *host { return newImage(elf.EM_X86_64, "usr/lib64", "2.2.5", "2.28") },
			"the image's glibc 2.28 is older than 2.34, which is needed by libefa-rdmav34.so, libefa.so.1, libibverbs.so.1 " +
				"and 6 more"},
		{"musl", func() *host {
			h := debianImage()
			h.remove(multiarchDir + "/libc.so.6")
			h.put("lib/ld-musl-x86_64.so.1", nil)
			h.remove("lib")
			return h
		}, "the image's C library is musl (/lib/ld-musl-x86_64.so.1)"},
		{"musl with a file in the place of glibc", func() *host {
			h := alpine()
			h.put("usr/lib/libc.so.6", elftest.Lib{Machine: h.machine, SOName: "libgcompat.so.0", Needed: []string{muslLibc}}.Build())
			return h
		}, "the image's C library is musl (/lib/ld-musl-x86_64.so.1)"},
		{"no libc", func() *host {
			h := debianImage()
			h.remove(multiarchDir + "/libc.so.6")
			return h
		}, "the image has no glibc"},
		{"arm64", func() *host { return newImage(elf.EM_AARCH64, "usr/lib64", "2.34") },
			"the image is for arm64, the host's libraries for x86-64"},
		{"32 bit", func() *host {
			h := debianImage()
			h.remove(multiarchDir + "/libc.so.6")
			h.put("usr/lib/libc.so.6", elftest.Library32())
			return h
		}, "the image's C library does not fit: find library \"libc.so.6\": library for another machine: " +
			"/usr/lib/libc.so.6 is ELFCLASS32"},
		{"plain directories", func() *host { return newImage(elf.EM_X86_64, "usr/lib", "2.34") },
			"the image looks for libraries in /lib, /usr/lib, where"},
		{"shadowed by the cache", func() *host {
			h := debianImage()
			h.write("opt/vendor/libibverbs.so.1", h.verbs())
			h.put("etc/ld.so.cache", elftest.LDConfig([][2]string{{"libibverbs.so.1", "/opt/vendor/libibverbs.so.1"}}))
			return h
		}, "the image finds its own libibverbs.so.1 at /opt/vendor/libibverbs.so.1 before the host's"},
		{"shadowed by /lib, not merged", func() *host {
			h := debianImage()
			h.remove("lib")
			h.write("lib/x86_64-linux-gnu/libnl-3.so.200", elftest.Lib{Defines: []string{"libnl_3"}})
			return h
		}, "the image finds its own libnl-3.so.200 at /lib/x86_64-linux-gnu/libnl-3.so.200 before the host's"},
		{"newer library replaced", func() *host {
			h := debianImage()
			own(h, "libibverbs.so.1", elftest.Lib{Defines: []string{"IBVERBS_1.1", "IBVERBS_1.15", "IBVERBS_PRIVATE_57"}})
			return h
		}, "the image's own /usr/lib/x86_64-linux-gnu/libibverbs.so.1.0 has IBVERBS_1.15, which the host's " +
			"/usr/lib/x86_64-linux-gnu/libibverbs.so.1, mounted over it, lacks"},
		{"direct-verbs library replaced by a provider", func() *host {
			h := debianImage()
			own(h, "librxe.so.1", elftest.Lib{Defines: []string{"RXE_1.0"}})
			h.link(h.provider("rxe"), "../librxe.so.1.0")
			return h
		}, "has RXE_1.0, which the host's /usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so, mounted over it, lacks"},
		{"own direct-verbs library", func() *host {
			h := debianImage()
			own(h, "libhns.so.1", h.client("IBVERBS_PRIVATE_34"))
			return h
		}, "the image's own libhns.so.1 would be used with the host's libibverbs"},
		{"own provider", func() *host {
			h := debianImage()
			h.write(h.provider("gone"), h.client("IBVERBS_PRIVATE_34"))
			return h
		}, "the image's own libgone-rdmav34.so would be used with the host's libibverbs"},
		{"own provider of another ABI", func() *host {
			h := debianImage()
			h.abi = "57"
			h.write(h.provider("gone"), h.client("IBVERBS_PRIVATE_57"))
			return h
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := debian()
			h.name("gone") // named, but not installed
			plan, err := h.find("mlx5_core")
			must.NoError(t, err)
			problems := CheckImage(tt.image().files, plan)
			if tt.say == "" {
				test.Eq(t, 0, len(problems), test.Sprintf("problems %v, want none", problems))
				return
			}
			if len(problems) == 0 || !strings.Contains(problems[0].String(), tt.say) {
				t.Errorf("problems %v do not say %q", problems, tt.say)
			}
		})
	}
}

// TestCheckImageOnDisk: an image's author may put anything in the place of a file. It is a
// problem of the image, and costs neither memory nor time.
func TestCheckImageOnDisk(t *testing.T) {
	plan, err := debian().find("mlx5_core")
	must.NoError(t, err)
	fifo := func(at string) error { return unix.Mkfifo(at, 0o644) }
	sparse := func(at string) error { return errors.Join(os.WriteFile(at, nil, 0o644), os.Truncate(at, 4<<30)) }
	for name, c := range map[string]struct {
		file  string
		plant func(at string) error
		say   string
	}{
		"cache is a FIFO": {"etc/ld.so.cache", fifo, "/etc/ld.so.cache: not a regular file"},
		"cache is sparse": {"etc/ld.so.cache", sparse,
			"/etc/ld.so.cache: larger than such a file can be: 4294967296 bytes"},
		"cache is a device": {"etc/ld.so.cache", func(at string) error { return os.Symlink("/dev/zero", at) },
			"/etc/ld.so.cache: not a regular file"},
		"libc is a FIFO": {multiarchDir + "/libc.so.6", fifo, "libc.so.6: not a regular file"},
		"libc is sparse": {multiarchDir + "/libc.so.6", sparse, "libc.so.6: larger than such a file can be"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must.NoError(t, os.CopyFS(dir, debianImage().files))
			at := filepath.Join(dir, c.file)
			if err := errors.Join(os.RemoveAll(at), os.MkdirAll(filepath.Dir(at), 0o755), os.MkdirAll(dir+"/dev", 0o755),
				c.plant(at)); err != nil {
				t.Fatal(err)
			}
			if os.Geteuid() == 0 {
				_ = unix.Mknod(dir+"/dev/zero", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5)))
			} else if err := fifo(dir + "/dev/zero"); err != nil {
				t.Fatal(err)
			}
			problems := CheckImage(hostfs.DirFS(dir), plan)
			if len(problems) == 0 || !strings.Contains(problems[0].String(), c.say) {
				t.Errorf("problems %v do not say %q", problems, c.say)
			}
		})
	}
}

// TestCheckImageFeatures finds a need of glibc that has no number.
func TestCheckImageFeatures(t *testing.T) {
	h := debian()
	l := h.client("IBVERBS_1.1")
	l.Needs["libc.so.6"] = []string{"GLIBC_2.34", "GLIBC_ABI_DT_RELR"}
	h.install("librdmacm.so.1", l)
	plan, err := h.find("mlx5_core")
	must.NoError(t, err)
	problems := CheckImage(debianImage().files, plan)
	const want = "the image's glibc lacks GLIBC_ABI_DT_RELR, which librdmacm.so.1 needs"
	if len(problems) != 1 || problems[0].String() != want {
		t.Errorf("problems %v, want %q", problems, want)
	}
	image := debianImage()
	image.libc("2.34", "ABI_DT_RELR")
	if problems := CheckImage(image.files, plan); len(problems) > 0 {
		t.Errorf("problems %v, want none", problems)
	}
}
