package hook

import (
	"strings"
	"testing"
)

func TestParseLimit(t *testing.T) {
	for in, want := range map[string]DeviceLimit{
		"mlx5_0:handles=64,objects=16384":                     {"mlx5_0", Wanted{64, 16384}},
		"mlx5_0:objects=1,handles=2":                          {"mlx5_0", Wanted{2, 1}},
		"rxe0:handles=1":                                      {"rxe0", Wanted{1, 0}},
		"a:b:objects=7":                                       {"a:b", Wanted{0, 7}},
		"rxe0:objects=9223372036854775807,handles=2147483648": {"rxe0", Wanted{NoLimit, NoLimit}},
	} {
		if got, err := ParseLimit(in); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"":                             "does not start with the name of an RDMA device",
		"handles=1":                    "does not start with",
		":handles=1":                   "does not start with",
		"mlx5 0:handles=1":             "does not start with",
		"mlx5_0:":                      `has "" where handles or objects`,
		"mlx5_0:handles=1,":            `has "" where`,
		"mlx5_0:qps=1":                 `has "qps" where`,
		"mlx5_0:handles":               `handles="", which is not a whole number`,
		"mlx5_0:handles=0":             `handles="0", which is not a whole number above 0`,
		"mlx5_0:handles=-1":            `handles="-1"`,
		"mlx5_0:handles=max":           `handles="max"`,
		"mlx5_0:objects=1.5":           `objects="1.5"`,
		"mlx5_0:handles=1,handles=2":   "handles twice",
		"mlx5_0:objects=1e3,handles=2": `objects="1e3"`,
		"mlx5_0:objects=9" + strings.Repeat("9", 19): "which is not a whole number",
	} {
		if got, err := ParseLimit(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", in, got, err, want)
		}
	}
}

// The texts are those of Linux 6.12.
func TestParseMax(t *testing.T) {
	const text = "rxe01 hca_handle=1 hca_object=2 \nrxe0 hca_handle=max hca_object=2000 \nsiw0 hca_handle=0 " +
		"hca_object=2147483646 \n"
	for device, want := range map[string]Resources{"rxe0": {NoLimit, 2000}, "rxe01": {1, 2}, "siw0": {0, 2147483646}} {
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

func FuzzParseLimit(f *testing.F) {
	f.Add("mlx5_0:handles=64,objects=16384")
	f.Add("a:b:objects=99999999999")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLimit(s)
		if err != nil {
			return
		}
		if l.Device == "" || l.Want == (Wanted{}) || l.Want.Handles < 0 || l.Want.Objects < 0 ||
			max(l.Want.Handles, l.Want.Objects) > NoLimit {
			t.Errorf("%q is read as %+v", s, l)
		}
		if !strings.HasPrefix(s, l.Device+":") {
			t.Errorf("%q has the device %q", s, l.Device)
		}
	})
}

// Whatever a kernel writes, nothing panics, and a line that is found is the device's.
func FuzzParseMax(f *testing.F) {
	f.Add("rxe0 hca_handle=max hca_object=2000 \n", "rxe0")
	f.Fuzz(func(t *testing.T, text, device string) {
		r, found, err := parseMax(text, device)
		if !found && (err != nil || r != Resources{}) {
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
