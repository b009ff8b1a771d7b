package userspace

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/elftest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// TestFind compares whole plans, and that a second search finds the same.
func TestFind(t *testing.T) {
	suse := newHost(host{machine: elf.EM_X86_64, libdir: "usr/lib64", abi: "47", glibc: "GLIBC_2.32"})
	suse.remove("lib64", "usr/lib64/libc.so.6") // not merged: the libc is in /lib64
	suse.put("lib64/libc.so.6", elftest.Lib{Machine: suse.machine, Defines: []string{"GLIBC_2.32"}}.Build())
	for name, h := range map[string]*host{"debian-amd64": debian(), "rhel-arm64": rhel(), "suse-amd64": suse} {
		t.Run(name, func(t *testing.T) {
			opt := Options{Machine: h.machine, Drivers: []string{"mlx5_core", "rxe"}, MAD: name == "rhel-arm64"}
			plan, err := Find(h.files, opt)
			must.NoError(t, err)
			golden.Bytes(t, "golden/"+name+".json", encode(t, plan))
			again, err := Find(h.files, opt)
			if err != nil || !bytes.Equal(encode(t, plan), encode(t, again)) {
				t.Errorf("a second search found another plan, error %v", err)
			}
		})
	}
}

func encode(t *testing.T, plan *Plan) []byte {
	t.Helper()
	data, err := json.MarshalIndent(plan, "", "  ")
	must.NoError(t, err)
	return append(data, '\n')
}

// TestFindRefuses plants one fault in a host, and reads what is said of it.
func TestFindRefuses(t *testing.T) {
	const dir = "usr/lib/x86_64-linux-gnu/"
	for _, tt := range []struct {
		name  string
		plant func(h *host)
		say   []string // all of it
	}{
		{"no libibverbs", func(h *host) { h.remove(dir + "libibverbs.so.1") },
			[]string{`find library "libibverbs.so.1"`, "/usr/lib/x86_64-linux-gnu", "install libibverbs1 (Debian"}},
		{"no librdmacm", func(h *host) { h.remove(dir + "librdmacm.so.1") },
			[]string{`"librdmacm.so.1"`, "install librdmacm1"}},
		{"dangling link", func(h *host) { h.remove(dir + "libibverbs.so.1.0") },
			[]string{`find library "libibverbs.so.1"`, "install libibverbs1"}},
		{"dangling need", func(h *host) { h.remove(dir + "libnl-3.so.200.0") },
			[]string{"add /usr/lib/x86_64-linux-gnu/lib", `find library "libnl-3.so.200"`}},
		{"no provider", func(h *host) { h.remove(h.provider("mlx5")) },
			[]string{"no provider for HCAs of driver mlx5_core",
				"/usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so does not exist", "install ibverbs-providers"}},
		{"dangling provider", func(h *host) { h.link(h.provider("mlx5"), "../gone.so") },
			[]string{"libmlx5-rdmav34.so does not exist"}},
		{"provider not named", func(h *host) { h.remove("etc/libibverbs.d/mlx5.driver") },
			[]string{"driver mlx5_core", "no file in /etc/libibverbs.d names mlx5",
				`"driver mlx5" into /etc/libibverbs.d/mlx5.driver`}},
		{"name is a link", func(h *host) { h.link("etc/libibverbs.d/mlx5.driver", "/usr/share/mlx5.driver") },
			[]string{"no file in /etc/libibverbs.d names mlx5"}},
		{"no names", func(h *host) {
			h.remove("etc/libibverbs.d/mlx5.driver", "etc/libibverbs.d/efa.driver", "etc/libibverbs.d/rxe.driver")
		},
			[]string{"find the names of providers in /etc/libibverbs.d", "install ibverbs-providers"}},
		{"provider file of another ABI", func(h *host) {
			h.remove(h.provider("mlx5"))
			h.link(dir+"libibverbs/libmlx5-rdmav25.so", "../libmlx5.so.1.0")
		},
			[]string{"only /usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav25.so", "libibverbs.so.1 is of private ABI 34"}},
		{"provider renamed", func(h *host) { h.write(dir+"libmlx5.so.1.0", h.client("IBVERBS_PRIVATE_25")) },
			[]string{"/usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so is of private ABI 25", "libibverbs.so.1 has 34",
				"one build of rdma-core"}},
		{"provider without libibverbs", func(h *host) { h.write(dir+"libmlx5.so.1.0", elftest.Lib{}) },
			[]string{"is of private ABI none"}},
		{"provider needs what is not there", func(h *host) {
			l := h.client("IBVERBS_PRIVATE_34")
			l.Needed = append(l.Needed, "libvendor.so.3")
			h.write(dir+"libmlx5.so.1.0", l)
		},
			[]string{"driver mlx5_core", `find library "libvendor.so.3"`}},
		{"librdmacm newer", func(h *host) { h.install("librdmacm.so.1", h.client("IBVERBS_1.20")) },
			[]string{"librdmacm.so.1: it needs IBVERBS_1.20 of /usr/lib/x86_64-linux-gnu/libibverbs.so.1"}},
		{"librdmacm private", func(h *host) { h.install("librdmacm.so.1", h.client("IBVERBS_PRIVATE_33")) },
			[]string{"it is of private ABI 33, but /usr/lib/x86_64-linux-gnu/libibverbs.so.1 has 34"}},
		{"32 bit", func(h *host) { h.put(dir+"libibverbs.so.1.0", elftest.Library32()) },
			[]string{"/usr/lib/x86_64-linux-gnu/libibverbs.so.1.0 is ELFCLASS32 EM_386, want 64-bit x86-64"}},
		{"wrong machine", func(h *host) { h.put(h.provider("mlx5"), elftest.Lib{Machine: elf.EM_AARCH64}.Build()) },
			[]string{"libmlx5-rdmav34.so is ELFCLASS64 EM_AARCH64, want 64-bit x86-64"}},
		{"damaged", func(h *host) { h.put(dir+"libibverbs.so.1.0", []byte("\x7fELF")) },
			[]string{"read library /usr/lib/x86_64-linux-gnu/libibverbs.so.1.0"}},
		{"not of rdma-core", func(h *host) { h.install("libibverbs.so.1", elftest.Lib{ROData: "lib%s-rdmav2.so\x00"}) },
			[]string{"no provider directory", "not the libibverbs of rdma-core"}},
		{"musl", func(h *host) { *h = *alpine() },
			[]string{"it is built for musl (it needs libc.musl-x86_64.so.1)", "images with glibc cannot load it",
				"install rdma-core in the image"}},
		{"musl of another distribution", func(h *host) {
			h.put(dir+"libibverbs.so.1.0", elftest.Lib{Machine: h.machine, Needed: []string{"libc.so"}}.Build())
		},
			[]string{"libibverbs.so.1: it is built for musl (it needs libc.so)"}},
		{"a library of musl among those of glibc", func(h *host) {
			h.put(dir+"libnl-3.so.200.0", elftest.Lib{Machine: h.machine, SOName: "libnl-3.so.200",
				Needed: []string{"libc.musl-x86_64.so.1"}, Defines: []string{"libnl_3"}}.Build())
		},
			[]string{"libnl-3.so.200: it is built for musl"}},
		{"a provider of musl", func(h *host) {
			l := h.client("IBVERBS_PRIVATE_34")
			l.Machine, l.Needed = h.machine, append(l.Needed, "libc.musl-x86_64.so.1")
			h.put(dir+"libmlx5.so.1.0", l.Build())
		},
			[]string{"driver mlx5_core", "is built for musl"}},
		{"libibverbs of two ABIs", func(h *host) {
			l := h.verbs()
			l.Defines = []string{"IBVERBS_1.1", "IBVERBS_PRIVATE_33"}
			h.install("libibverbs.so.1", l)
		},
			[]string{"it loads providers of private ABI 34, but does not define IBVERBS_PRIVATE_34"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := debian()
			tt.plant(h)
			plan, err := h.find("mlx5_core")
			if err == nil || plan != nil {
				t.Fatalf("plan %v, error %v; want an error alone", plan, err)
			}
			for _, s := range tt.say {
				test.StrContains(t, err.Error(), s, test.Sprintf("error %q does not say", err))
			}
		})
	}
}

// TestFindRefusesDrivers says which HCAs have no provider, all at once.
func TestFindRefusesDrivers(t *testing.T) {
	_, err := debian().find("usnic_verbs", "bnxt_en", "mlx5_core", "", "bnxt_re")
	must.Error(t, err, must.Sprint("found a plan"))
	for _, s := range []string{"driver usnic_verbs: ", "driver bnxt_en, bnxt_re: ", "driver unknown to sysfs: "} {
		test.StrContains(t, err.Error(), s, test.Sprintf("error %q does not say", err))
	}
	test.StrNotContains(t, err.Error(), "mlx5", test.Sprintf("error %q names mlx5, which has a provider", err))
	if _, err := Find(debian().files, Options{Machine: elf.EM_S390}); err == nil ||
		!strings.Contains(err.Error(), "only x86-64 and arm64") {
		t.Errorf("error %v for a machine without a layout", err)
	}
}

// TestFindWarns leaves out what no HCA needs, and says so.
func TestFindWarns(t *testing.T) {
	for _, tt := range []struct {
		name    string
		plant   func(h *host)
		say     string
		without string // a driver that is not in the plan
	}{
		{"provider of another ABI", func(h *host) { h.write(h.provider("rxe"), h.client("IBVERBS_PRIVATE_25")) },
			"provider rxe is left out: /usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so is of private ABI 25", "rxe"},
		{"name without provider", func(h *host) { h.name("gone") },
			"provider gone is left out: /usr/lib/x86_64-linux-gnu/libibverbs/libgone-rdmav34.so does not exist", "gone"},
		{"name is a link", func(h *host) { h.link("etc/libibverbs.d/own.driver", "../own.driver") },
			"/etc/libibverbs.d/own.driver is a symbolic link", "own"},
		{"a library of the vendor's", func(h *host) {
			h.install("libvendor.so.3", elftest.Lib{})
			l := h.client("IBVERBS_PRIVATE_34")
			l.Needed = append(l.Needed, "libvendor.so.3")
			h.write(h.provider("rxe"), l)
		}, "librxe-rdmav34.so needs libvendor.so.3, which is mounted over an image's own", ""},
		{"direct-verbs library is not linked", func(h *host) { h.remove("usr/lib/x86_64-linux-gnu/libefa.so.1") },
			"", ""},
		{"direct-verbs library is another file", func(h *host) {
			h.write(h.provider("efa"), h.client("IBVERBS_PRIVATE_34"))
			l := h.client("IBVERBS_PRIVATE_34")
			l.SOName = "libefa.so.1"
			h.write(h.provider("efa"), l)
		}, "/usr/lib/x86_64-linux-gnu/libefa.so.1 and the provider /usr/lib/x86_64-linux-gnu/libibverbs/libefa-rdmav34.so " +
			"are two files", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := debian()
			tt.plant(h)
			plan, err := h.find("mlx5_core")
			must.NoError(t, err)
			test.StrContains(t, strings.Join(plan.Warnings, "\n"), tt.say, test.Sprint("warnings"))
			test.False(t, slices.Contains(plan.Drivers, tt.without),
				test.Sprintf("drivers %v have %s", plan.Drivers, tt.without))
			if !slices.ContainsFunc(plan.Mounts,
				func(m cdi.Mount) bool { return m.ContainerPath == "/usr/lib64/libefa.so.1" }) {
				t.Errorf("no libefa.so.1 in %v", plan.Mounts)
			}
		})
	}
}

// TestFindUnversioned accepts what the dynamic linker accepts: a library without
// symbol versions for one that was linked with them.
func TestFindUnversioned(t *testing.T) {
	h := debian()
	h.install("libnl-3.so.200", elftest.Lib{})
	if _, err := h.find("mlx5_core"); err != nil {
		t.Error(err)
	}
}

// TestFindPlaces finds libraries where the host's dynamic linker would.
func TestFindPlaces(t *testing.T) {
	t.Run("cache", func(t *testing.T) {
		h := debian()
		h.write("opt/rdma/lib/libibverbs.so.1", h.verbs())
		h.put("etc/ld.so.cache", elftest.LDConfig([][2]string{{"libibverbs.so.1", "/opt/rdma/lib/libibverbs.so.1"}}))
		plan, err := h.find("mlx5_core")
		must.NoError(t, err)
		want := cdi.Mount{HostPath: "/opt/rdma/lib/libibverbs.so.1", ContainerPath: "/usr/lib64/libibverbs.so.1"}
		test.True(t, slices.Contains(plan.Mounts, want), test.Sprintf("no mount %v in %v", want, plan.Mounts))
	})
	t.Run("32 bit first", func(t *testing.T) {
		h := rhel()
		h.put("usr/lib/libibverbs.so.1", elftest.Library32())
		h.put("etc/ld.so.cache", elftest.LDConfig([][2]string{{"libibverbs.so.1", "/usr/lib/libibverbs.so.1"},
			{"libibverbs.so.1", "/lib64/libibverbs.so.1"}}))
		plan, err := h.find("mlx5_core")
		must.NoError(t, err)
		want := cdi.Mount{HostPath: "/usr/lib64/libibverbs.so.1", ContainerPath: "/usr/lib/aarch64-linux-gnu/libibverbs.so.1"}
		test.True(t, slices.Contains(plan.Mounts, want), test.Sprintf("no mount %v in %v", want, plan.Mounts))
	})
	t.Run("provider by search", func(t *testing.T) {
		h := debian()
		h.remove(h.provider("rxe"))
		h.write("usr/lib/x86_64-linux-gnu/librxe-rdmav34.so", h.client("IBVERBS_PRIVATE_34"))
		plan, err := h.find("rxe")
		must.NoError(t, err)
		want := cdi.Mount{
			HostPath: "/usr/lib/x86_64-linux-gnu/librxe-rdmav34.so", ContainerPath: "/usr/lib64/librxe-rdmav34.so",
		}
		test.True(t, slices.Contains(plan.Mounts, want), test.Sprintf("no mount %v in %v", want, plan.Mounts))
	})
	t.Run("provider by path", func(t *testing.T) {
		h := debian()
		h.write("opt/vendor/libnew-rdmav34.so", h.client("IBVERBS_PRIVATE_34"))
		h.put("etc/libibverbs.d/new.driver", []byte("# vendor\n\n driver\t/opt/vendor/libnew \n"))
		plan, err := h.find("mlx5_core")
		must.NoError(t, err)
		want := cdi.Mount{HostPath: "/opt/vendor/libnew-rdmav34.so", ContainerPath: "/opt/vendor/libnew-rdmav34.so"}
		test.True(t, slices.Contains(plan.Mounts, want), test.Sprintf("no mount %v in %v", want, plan.Mounts))
	})
}
