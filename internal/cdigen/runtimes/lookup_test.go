package runtimes

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"tags.cncf.io/container-device-interface/specs-go"
)

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		target, name, max string
		on                bool
	}{
		{"podman-3.4.4", "podman-3.4.4", "", false},
		{"podman-4", "podman-4.0", "", false},
		{"podman-4.1", "podman-4.1", "0.4.0", true},
		{"podman-4.2.1", "podman-4.2.1", "0.4.0", true},
		{"podman-4.3", "podman-4.3", "0.5.0", true},
		{"podman-4.3.1", "podman-4.3.1", "0.5.0", true},
		{"podman-4.6.2", "podman-4.6.2", "0.5.0", true},
		{"podman-4.9.3", "podman-4.9.3", "0.6.0", true},
		{"podman-5", "podman-5.0", "0.6.0", true},
		{"podman-5.4.2", "podman-5.4.2", "0.8.0", true},
		{"podman-5.8", "podman-5.8", "1.0.0", true},
		{"podman-main", "podman-main", "1.1.0", true},
		{"podman-6.0", "podman-6.0", "1.0.0", true},
		{"containerd-1.6.20~ds1", "containerd-1.6.20", "", false},
		{"containerd-1.7", "containerd-1.7", "0.5.0", false},
		{"containerd-1.7.11", "containerd-1.7.11", "0.5.0", false},
		{"containerd-1.7.12", "containerd-1.7.12", "0.6.0", false},
		{"containerd-1.7.24", "containerd-1.7.24", "0.7.0", false},
		{"containerd-v1.7.28", "containerd-1.7.28", "0.8.0", false},
		{"containerd-2.0.4", "containerd-2.0.4", "0.8.0", true},
		{"containerd-2.1.3", "containerd-2.1.3", "1.0.0", true},
		{"containerd-2.2.1", "containerd-2.2.1", "1.1.0", true},
		{"containerd-2.3.0-rc.1", "containerd-2.3", "1.1.0", true},
		{"containerd-main", "containerd-main", "1.1.0", true},
		{"docker-24.0.7", "docker-24.0.7", "", false},
		{"docker-25", "docker-25.0", "0.6.0", false},
		{"docker-28", "docker-28.0", "0.8.0", false},
		{"docker-28.1.1", "docker-28.1.1", "1.0.0", false},
		{"docker-28.2", "docker-28.2", "1.0.0", true},
		{"docker-29", "docker-29.0", "1.0.0", true},
		{"docker-main", "docker-main", "1.1.0", true},
		{"crio-1.24", "crio-1.24", "0.3.0", true},
		{"crio-1.27.1", "crio-1.27.1", "0.5.0", true},
		{"CRI-O-1.31", "crio-1.31", "0.8.0", true},
		{"crio-1.40", "crio-1.40", "1.1.0", true},
	} {
		got, err := Lookup(c.target)
		if err != nil {
			t.Errorf("%s: %v", c.target, err)
			continue
		}
		if got.String() != c.name || got.MaxCDI != c.max || got.OnByDefault != c.on {
			t.Errorf("%s: got %s, max %q, on %v; want %s, max %q, on %v", c.target, got, got.MaxCDI, got.OnByDefault, c.name,
				c.max, c.on)
		}
		test.Eq(t, (len(got.Dirs) == 0), (got.MaxCDI == ""),
			test.Sprintf("%s: reads CDI %q from %v", c.target, got.MaxCDI, got.Dirs))
		if !got.OnByDefault && got.Note == "" {
			t.Errorf("%s: CDI is not on, and nothing says what to do", c.target)
		}
	}
}

// podman 5.5 alone reads one directory.
func TestLookupDirs(t *testing.T) {
	for target, want := range map[string][]string{
		"podman-5.4": {"/etc/cdi", "/var/run/cdi"},
		"podman-5.5": {"/etc/cdi"},
		"podman-5.6": {"/etc/cdi", "/var/run/cdi"},
	} {
		got, err := Lookup(target)
		if err != nil || !slices.Equal(got.Dirs, want) {
			t.Errorf("%s reads %v (%v), want %v", target, got.Dirs, err, want)
		}
	}
}

func TestLookupUnknown(t *testing.T) {
	for target, why := range map[string]string{
		"":                "no such runtime",
		"podman":          "numbers with dots",
		"podman-":         "numbers with dots",
		"podman-four":     "numbers with dots",
		"podman-4.":       "numbers with dots",
		"podman--4":       "numbers with dots",
		"podman-2.2":      "older than the oldest",
		"podman-43":       "no such version",
		"crio-1.20":       "older than the oldest",
		"containerd-1.5":  "older than the oldest",
		"docker-19.03":    "older than the oldest",
		"docker-280":      "no such version",
		"rkt-1.0":         "no such runtime",
		"podman-99999999": "numbers with dots",
	} {
		_, err := Lookup(target)
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", target, err, why)
			continue
		}
		for _, known := range []string{"podman-4.3", "containerd-1.7.12", "docker-28.2", "crio-1.31", "podman-main"} {
			test.StrContains(t, err.Error(), known,
				test.Sprintf("%q: error does not list %s: %v", target, known, err))
		}
	}
}

// The table is in order, and says only versions that the CDI library knows.
func TestTable(t *testing.T) {
	for _, name := range names {
		rows := rowsOf(name.target)
		for i, r := range rows {
			if i > 0 && rows[i-1].from.compare(r.from) >= 0 {
				t.Errorf("%s: %s stands before %s", r.runtime, rows[i-1].from, r.from)
			}
			if r.max == "" {
				continue
			}
			// The library takes a bare declaration of each version it knows.
			test.NoError(t, specs.ValidateVersion(&specs.Spec{Version: r.max}),
				test.Sprintf("%s %s", r.runtime, r.from))
		}
	}
	for _, target := range Known() {
		if _, err := Lookup(target); err != nil {
			t.Errorf("a known target: %v", err)
		}
	}
}

// docs/runtimes.md has the table as it is here.
func TestDocs(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/runtimes.md")
	must.NoError(t, err)
	test.StrContains(t, string(doc), markdown(), test.Sprint("docs/runtimes.md does not have this table"))
}

// markdown is the table in docs/runtimes.md.
func markdown() string {
	var b strings.Builder
	b.WriteString("| runtime | from version | highest CDI | CDI library | by default | remarks |\n")
	b.WriteString("|---|---|---|---|---|---|\n")
	for _, name := range names {
		for _, r := range rowsOf(name.target) {
			off, note := "", r.note
			if r.max != "" && !r.on {
				off = "**off**"
			}
			if len(r.dirs) == 1 {
				note = "reads " + staticDir + "; " + note
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", name.prose, r.from, r.max, r.library, off, note)
		}
	}
	return b.String()
}

// names lists the runtimes in the order of the table, with their spelling in prose.
var names = []struct{ target, prose string }{
	{Podman, "podman"},
	{Containerd, "containerd"},
	{Docker, "Docker"},
	{CRIO, "CRI-O"},
}
