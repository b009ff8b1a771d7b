package doctor

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/usable"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// failures let looks fail that are no paths.
var failures = map[string]func(*fake){
	netnsMode:       func(f *fake) { f.deny("/sys/module/ib_core/parameters/netns_mode") },
	processes:       func(f *fake) { f.deny("/proc/*") },
	hooksRead:       func(f *fake) { f.deny("/usr/*", "/opt/*", "/run/rdma-hook") },
	hookReports:     func(f *fake) { f.deny("/run/*", "/var/*") },
	mountsRead:      func(f *fake) { f.deny("/proc/*/mountinfo") },
	specsRead:       func(f *fake) { f.deny("/etc/cdi", "/run/cdi", "/var/run/cdi") },
	versionOf + "*": func(f *fake) { f.failPrograms() },
	configurationOf + "*": func(f *fake) {
		f.deny("/opt", "/etc/containerd", "/etc/containers", "/usr/share/containers", "/etc/docker", "/etc/crio")
	},
	"slots of *":            func(f *fake) { f.deny("/etc/cdi", "/run/cdi", "/var/run/cdi") },
	"rdmamap*":              func(f *fake) { f.noRdmamap("denied") },
	"peer memory of *":      func(f *fake) { f.deny("/boot", "/lib/modules", "/proc/config.gz", "/proc/driver") },
	"addresses (GIDs) of *": func(f *fake) { f.deny(portAddresses) },
	containersRead: func(f *fake) {
		f.host.Containers = func() ([]usable.Running, error) { return nil, errors.New("denied") }
	},
}

func (f *fake) deny(looks ...string) { f.denied = append(f.denied, looks...) }

func (f *fake) failPrograms() {
	for _, d := range daemonKinds {
		f.fails(d.name, "denied")
	}
}

// TestLooks: what a finding says was looked at. No kind of finding is good where one of its looks fails, and none is
// given where all of them fail. What was not seen is said then. A kind without looks fails here.
func TestLooks(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*/*.txtar")
	must.NoError(t, err)
	shown := map[string]bool{}
	for _, file := range files {
		c := golden.Open(t, file)
		f, healthy := newCase(t, c)
		for _, found := range append(f.diagnose().Findings, healthy.Findings...) {
			key := found.ID + string(found.Severity)
			if shown[key] || found.Severity == finding.NotSeen {
				continue
			}
			shown[key] = true
			looks := catalogue.Find(found.ID).Looks
			must.SliceNotEmpty(t, looks, must.Sprintf("%s has no look", found.ID))
			if found.Severity != finding.OK {
				failLooks(t, c, found, looks)
				continue
			}
			for _, look := range looks {
				failLooks(t, c, found, []string{look})
			}
		}
	}
}

// failLooks: where looks fail, a finding is not given.
func failLooks(t *testing.T, c *golden.Archive, found finding.Finding, looks []string) {
	t.Helper()
	f, _ := newCase(t, c)
	for _, look := range looks {
		if strings.HasPrefix(look, "/") {
			f.deny(look)
			continue
		}
		must.MapContainsKey(t, failures, look)
		failures[look](f)
	}
	r, err := f.tryDiagnose()
	if err != nil {
		return // no report says anything
	}
	title, _, _ := strings.Cut(string(c.Comment), "\n")
	same := func(o finding.Finding) bool { return o.ID == found.ID && o.Severity == found.Severity }
	if i := slices.IndexFunc(r.Findings, same); i >= 0 {
		t.Errorf("%s: without %q doctor still says %s %s: %s", title, looks, found.Severity, found.ID, r.Findings[i].Message)
	}
	test.True(t, r.Summary[finding.NotSeen] > 0 || r.Summary[finding.Warning] > 0,
		test.Sprintf("%s of %s: without %q nothing is said", found.ID, title, looks))
}
