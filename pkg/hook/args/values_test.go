package args

import (
	"strings"
	"testing"

	"github.com/shoenig/test"
)

func TestParseLimit(t *testing.T) {
	for in, want := range map[string]Limit{
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

func FuzzParseLimit(f *testing.F) {
	f.Add("mlx5_0:handles=64,objects=16384")
	f.Add("a:b:objects=99999999999")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLimit(s)
		if err != nil {
			return
		}
		if l.IBDev == "" || l.Want == (Wanted{}) || l.Want.Handles < 0 || l.Want.Objects < 0 ||
			max(l.Want.Handles, l.Want.Objects) > NoLimit {
			t.Errorf("%q is read as %+v", s, l)
		}
		test.StrHasPrefix(t, l.IBDev+":", s, test.Sprintf("%q has the device %q", s, l.IBDev))
	})
}

func TestParsePresence(t *testing.T) {
	if p, err := ParsePresence("mlx5_0:uverbs12"); err != nil || p != (Presence{"mlx5_0", "uverbs12"}) {
		t.Errorf("%v, %v", p, err)
	}
	for _, bad := range []string{"", "mlx5_0", "mlx5_0:", ":uverbs0", "mlx5_0:umad0", "mlx5_0:uverbs0/../x"} {
		if p, err := ParsePresence(bad); err == nil {
			t.Errorf("%q is taken for %v", bad, p)
		}
	}
}

func TestParseNodeOwner(t *testing.T) {
	for text, want := range map[string]NodeOwner{
		"rxe0:uverbs3":                    {"rxe0", "uverbs3", "", ""},
		"mlx5_0:uverbs0@0000:3b:00.0":     {"mlx5_0", "uverbs0", "0000:3b:00.0", ""},
		"mlx5_0:umad1@0000:3b:00.0":       {"mlx5_0", "umad1", "0000:3b:00.0", ""},
		"mlx5_7:uverbs12@0000:c1:00.0/88": {"mlx5_7", "uverbs12", "0000:c1:00.0", "88"},
	} {
		if got, err := ParseNodeOwner(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "mlx5_0", ":uverbs0", "mlx5_0:", "mlx5_0:uverbs", "mlx5_0:uverbs0@",
		"mlx5_0:uverbs0@/88", "mlx5_0:rdma_cm",
		"mlx5_0:uverbs0@..", "mlx5_0:uverbs0/../x@0000:3b:00.0", "mlx5_0:uverbs0@0000:3b:00.0/..",
		"mlx5_0:uverbs0@0000:3b:00.0/+8"} {
		if got, err := ParseNodeOwner(bad); err == nil {
			t.Errorf("%q is taken for %+v", bad, got)
		}
	}
}

func TestParseInterface(t *testing.T) {
	if i, err := ParseInterface("rdma0:rdma.dev/claim/1/x:y"); err != nil ||
		i != (Interface{"rdma0", "rdma.dev/claim/1/x:y"}) {
		t.Errorf("%v, %v", i, err)
	}
	for _, bad := range []string{"", "rdma0", "rdma0:", ":alias", "rd ma0:a", "a-name-too-long0:a"} {
		if i, err := ParseInterface(bad); err == nil {
			t.Errorf("%q is taken for %v", bad, i)
		}
	}
}
