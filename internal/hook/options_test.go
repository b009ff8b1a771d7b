package hook

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseOptions(t *testing.T) {
	defaults := Options{OnDenied: Clamp, Timeout: DefaultTimeout}
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
			o.Limits = []DeviceLimit{{"mlx5_0", Wanted{2, 100}}, {"rxe_a", Wanted{0, 7}}}
		}), nil},
		{"--memlock 1 --memlock 2", with(func(o *Options) { o.Memlock = 2 }), nil},
		{"--on-denied fail --report /run/r --timeout 1s", Options{OnDenied: Fail, Report: "/run/r", Timeout: time.Second},
			nil},
		{"--version", with(func(o *Options) { o.Version = true }), nil},
		{"-h", with(func(o *Options) { o.Help = true }), nil},
		{"--rdma-max mlx5_0=2 --memlock 1", with(func(o *Options) { o.Memlock = 1 }),
			[]string{`ignoring unknown flag "--rdma-max"`, `ignoring extra argument "mlx5_0=2"`}},
		{"--new=x -q --", defaults, []string{`ignoring unknown flag "--new=x"`, `ignoring unknown flag "-q"`,
			`ignoring unknown flag "--"`}},
		{"--memlocked 1", defaults, []string{`ignoring unknown flag "--memlocked"`, `ignoring extra argument "1"`}},
	} {
		got, warnings, err := ParseOptions(strings.Fields(tt.args))
		if err != nil || !reflect.DeepEqual(got, tt.want) || !slices.Equal(warnings, tt.warnings) {
			t.Errorf("ParseOptions(%s) = %+v, %q, %v; want %+v, %q", tt.args, got, warnings, err, tt.want, tt.warnings)
		}
	}
}

func TestParseOptionsRefusesValues(t *testing.T) {
	for args, inError := range map[string]string{
		"--memlock lots":      `flag --memlock: parse size "lots"`,
		"--memlock":           `flag --memlock: parse size ""`,
		"--memlock=":          `parse size ""`,
		"--limit mlx5_0":      `flag --limit: parse limit "mlx5_0"`,
		"--limit":             `flag --limit: parse limit ""`,
		"--on-denied panic":   `flag --on-denied: "panic" is none of clamp, fail, ignore`,
		"--report reports":    `flag --report: "reports" is not an absolute path`,
		"--timeout 2":         "flag --timeout: time: missing unit",
		"--timeout 0s":        `flag --timeout: "0s" is not a positive duration`,
		"--timeout --memlock": "flag --timeout: time: invalid duration",
	} {
		_, _, err := ParseOptions(strings.Fields(args))
		if err == nil || !strings.Contains(err.Error(), inError) {
			t.Errorf("ParseOptions(%s): %v, want an error with %q", args, err, inError)
		}
	}
}

// Every flag is in the help.
func TestUsageIsComplete(t *testing.T) {
	for _, word := range []string{"--memlock", "--limit", "--on-denied", "--report", "--timeout", "--version"} {
		if !strings.Contains(Usage(), "  "+word) {
			t.Errorf("usage lacks %s", word)
		}
	}
}
