package hook

import (
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
)

// The texts are those of Linux 6.12.
func TestParseMax(t *testing.T) {
	const text = "rxe01 hca_handle=1 hca_object=2 \nrxe0 hca_handle=max hca_object=2000 \nsiw0 hca_handle=0 " +
		"hca_object=2147483646 \n"
	for device, want := range map[string]record.Resources{
		"rxe0": counts(args.NoLimit, 2000), "rxe01": counts(1, 2), "siw0": counts(0, 2147483646),
	} {
		if got, found, err := parseMax(text, device); !found || err != nil || got != want {
			t.Errorf("%s: %+v, %v, %v", device, got, found, err)
		}
	}
	for _, text := range []string{"", "\n", text, "hca_handle=1"} {
		if _, found, err := parseMax(text, "rxe"); found || err != nil {
			t.Errorf("%q: found %v, %v", text, found, err)
		}
	}
	for _, text := range []string{"rxe0", "rxe0 hca_handle=1", "rxe0 hca_handle=-1 hca_object=1",
		"rxe0 hca_handle=1 hca_object=", "rxe0 hca_handle=2147483648 hca_object=1"} {
		if _, _, err := parseMax(text, "rxe0"); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestParseMembership(t *testing.T) {
	for in, want := range map[string]membership{
		"0::/a\n":                               {"/a", true},
		"0::/a:b (deleted)":                     {"/a:b (deleted)", true},
		"12:rdma:/k\n0::/a\n":                   {"/k", false},
		"0::/a\n3:misc,rdma:/k\n":               {"/k", false},
		"1:name=rdma:/s\n2:rdmax:/t\n0::/a\n":   {"/a", true},
		"5:cpu,cpuacct:/\n0::/\n":               {"/", true},
		"garbage\n0:\n1::/x\n0::relative\n0::/": {"/", true},
	} {
		if got, found := parseMembership(in); !found || got != want {
			t.Errorf("%q: %+v, %v; want %+v", in, got, found, want)
		}
	}
	for _, in := range []string{"", "\n\n", "4:memory:/x\n", "0::", "rdma"} {
		if got, found := parseMembership(in); found {
			t.Errorf("%q: %+v", in, got)
		}
	}
}

// Whatever a kernel writes, nothing panics, and a line that is found is the device's.
func FuzzParseMax(f *testing.F) {
	f.Add("rxe0 hca_handle=max hca_object=2000 \n", "rxe0")
	f.Fuzz(func(t *testing.T, text, device string) {
		r, found, err := parseMax(text, device)
		if !found && (err != nil || r != record.Resources{}) {
			t.Errorf("%q is not in %q, but has %v, %v", device, text, r, err)
		}
		if found && !strings.Contains("\n"+text+"\n", "\n"+device) {
			t.Errorf("%q is found in %q", device, text)
		}
		if r.Handles < 0 || r.Objects < 0 {
			t.Errorf("%q has %+v", text, r)
		}
	})
}

func FuzzParseMembership(f *testing.F) {
	f.Add("12:rdma:/k\n0::/a\n", "29 23 0:26 / /mnt/a\\040b rw - cgroup2 none rw")
	f.Fuzz(func(t *testing.T, text, line string) {
		if m, found := parseMembership(text); found && !strings.HasPrefix(m.path, "/") {
			t.Errorf("%q: path %q", text, m.path)
		}
		for _, unified := range []bool{true, false} {
			root, mount, ok := parseMount(line, unified)
			if ok && (!strings.HasPrefix(root, "/") || !strings.HasPrefix(mount, "/")) {
				t.Errorf("%q: %q at %q", line, root, mount)
			}
		}
	})
}
