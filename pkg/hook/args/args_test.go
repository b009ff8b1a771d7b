package args

import (
	"cmp"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

func TestParse(t *testing.T) {
	defaults := Options{OnDenied: Clamp, OnUnusable: Warn, Timeout: DefaultTimeout}
	with := func(change func(*Options)) Options { o := defaults; change(&o); return o }
	for _, tt := range []struct {
		args     string
		want     Options
		warnings []string
	}{
		{"", defaults, nil},
		{"--memlock unlimited", with(func(o *Options) { o.Memlock = Unlimited }), nil},
		{"--memlock=8Mi", with(func(o *Options) { o.Memlock = 8 << 20 }), nil},
		{"--limit mlx5_0:handles=2,objects=100 --limit=rxe_a:objects=7", with(func(o *Options) {
			o.Limits = []Limit{{"mlx5_0", Wanted{2, 100}}, {"rxe_a", Wanted{0, 7}}}
		}), nil},
		{"--memlock 1 --memlock 2", with(func(o *Options) { o.Memlock = 2 }), nil},
		{"--on-denied fail --report /run/r --timeout 1s", Options{OnDenied: Fail, OnUnusable: Warn, Report: "/run/r",
			Timeout: time.Second}, nil},
		{"--hca mlx5_0:uverbs0:mlx5_core.sf --on-unusable=fail", with(func(o *Options) {
			o.HCAs, o.OnUnusable = []HCA{{"mlx5_0", "uverbs0", "mlx5_core.sf"}}, FailUnusable
		}), nil},
		{"--version", with(func(o *Options) { o.Version = true }), nil},
		{"-h", with(func(o *Options) { o.Help = true }), nil},
		{"--rdma-max mlx5_0=2 --memlock 1", with(func(o *Options) { o.Memlock = 1 }),
			[]string{`ignoring unknown flag "--rdma-max"`, `ignoring extra argument "mlx5_0=2"`}},
		{"--new=x -q --", defaults, []string{`ignoring unknown flag "--new=x"`, `ignoring unknown flag "-q"`,
			`ignoring unknown flag "--"`}},
		{"--memlocked 1", defaults, []string{`ignoring unknown flag "--memlocked"`, `ignoring extra argument "1"`}},
	} {
		got, warnings, err := Parse(strings.Fields(tt.args))
		if err != nil || !reflect.DeepEqual(got, tt.want) || !slices.Equal(warnings, tt.warnings) {
			t.Errorf("Parse(%s) = %+v, %q, %v; want %+v, %q", tt.args, got, warnings, err, tt.want, tt.warnings)
		}
	}
}

func TestParseRefusesValues(t *testing.T) {
	for args, inError := range map[string]string{
		"--memlock lots":               `flag --memlock: parse size "lots"`,
		"--memlock":                    `flag --memlock: parse size ""`,
		"--memlock=":                   `parse size ""`,
		"--limit mlx5_0":               `flag --limit: parse limit "mlx5_0"`,
		"--limit":                      `flag --limit: parse limit ""`,
		"--on-unusable panic":          `flag --on-unusable: want warn, fail or ignore, not "panic"`,
		"--hca mlx5_0:umad0:mlx5_core": `flag --hca: "mlx5_0:umad0:mlx5_core" is not IBDEV:NODE:DRIVER`,
		"--hca mlx5_0:uverbs0:":        `is not IBDEV:NODE:DRIVER`,
		"--on-denied panic":            `flag --on-denied: want clamp, fail or ignore, not "panic"`,
		"--report reports":             `flag --report: "reports" is not an absolute path`,
		"--timeout 2":                  "flag --timeout: time: missing unit",
		"--timeout 0s":                 `flag --timeout: "0s" is not a positive duration`,
		"--timeout --memlock":          "flag --timeout: time: invalid duration",
	} {
		_, _, err := Parse(strings.Fields(args))
		test.ErrorContains(t, err, inError, test.Sprintf("Parse(%s)", args))
	}
}

// TestRoundTrip: the hook reads from Args what stood in Options, whatever its fields are, and whatever names the kernel
// has. A field without a flag of its own fails here.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	device := func() string { return pick("mlx5_0", "rxe0", "a:b", "rocep24s0f0", "mlx5_0@1", "é", "=", "--node") }
	number := func() int64 { return 1 + r.Int64N(int64(NoLimit)) }
	seen := map[string]bool{}
	for range 5000 {
		o := Options{
			Memlock: Size(r.Uint64() >> r.IntN(64)), OnDenied: OnDenied(pick("clamp", "fail", "ignore")),
			OnUnusable: OnUnusable(pick("warn", "fail", "ignore")),
			Report:     pick("", "/run/r", "/a b/="), LastReport: pick("", "/run/l"), Claim: pick("", "uid", "--memlock", "a=b"),
			Timeout: time.Duration(number()), Version: r.IntN(2) == 0, Help: r.IntN(2) == 0,
		}
		for range r.IntN(3) {
			o.Limits = append(o.Limits, Limit{device(), Wanted{Count(number() * r.Int64N(2)), Count(number())}})
			o.Presences = append(o.Presences, Presence{device(), "uverbs" + pick("0", "12")})
			o.Interfaces = append(o.Interfaces, Interface{pick("rdma0", "a.1"), pick("rdma.dev/claim/1", "x:y=z")})
			o.HCAs = append(o.HCAs, HCA{device(), "uverbs" + pick("0", "12"), pick("mlx5_core", "mlx5_core.sf", "rxe")})
			slot := pick("", "0000:3b:00.0", "10000:e1:00.0")
			o.Nodes = append(o.Nodes, NodeOwner{device(), pick("uverbs0", "umad1", "issm7"), cmp.Or(slot, "0000:00:01.0"),
				pick("", "0", "88")})
		}
		got, warnings, err := Parse(o.Args())
		if err != nil || len(warnings) > 0 || !reflect.DeepEqual(got, o) {
			t.Fatalf("%q is read as\n%+v, %q, %v; it was\n%+v", o.Args(), got, warnings, err, o)
		}
		must.NoError(t, o.Check(), must.Sprintf("%+v", o))
		v := reflect.ValueOf(o)
		for i := range v.NumField() {
			seen[v.Type().Field(i).Name] = seen[v.Type().Field(i).Name] || !v.Field(i).IsZero()
		}
	}
	for i := range reflect.TypeFor[Options]().NumField() {
		if name := reflect.TypeFor[Options]().Field(i).Name; !seen[name] {
			t.Errorf("field %s was never set: give it a value above", name)
		}
	}
}

// TestCheck: what the hook would read otherwise is refused before it stands in a spec.
func TestCheck(t *testing.T) {
	for name, o := range map[string]Options{
		"no such policy":          {OnDenied: "panic"},
		"a relative path":         {Report: "reports"},
		"a limit of nothing":      {Limits: []Limit{{IBDev: "mlx5_0"}}},
		"a device with a blank":   {Presences: []Presence{{"mlx5 0", "uverbs0"}}},
		"no node":                 {Nodes: []NodeOwner{{IBDev: "mlx5_0", PCI: "0000:3b:00.0"}}},
		"a slot within a name":    {Nodes: []NodeOwner{{IBDev: "a@b", Node: "uverbs0"}}},
		"a name that is too long": {Interfaces: []Interface{{"sixteen-letters-", "a"}}},
		"no driver":               {HCAs: []HCA{{IBDev: "mlx5_0", Node: "uverbs0"}}},
		"a colon in a name":       {Interfaces: []Interface{{"a:b", "c"}}},
	} {
		test.Error(t, o.Check(), test.Sprintf("%s: %q is accepted", name, o.Args()))
	}
	test.NoError(t, (Options{Limits: []Limit{{"mlx5_0", Wanted{Handles: 1 << 40}}}}).Check(),
		test.Sprint("more than the kernel counts is no limit"))
}
