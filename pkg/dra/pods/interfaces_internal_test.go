package pods

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/flock"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/attach"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
)

// TestDetachedOnce: an interface that does not come back is logged once for each reason, and not in each sweep.
func TestDetachedOnce(t *testing.T) {
	var logged bytes.Buffer
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&logged))))
	s := &interfaces{cfg: &Config{Report: noReport{}}}
	pulled := attach.Record{Claim: "1", Device: "pci-0000-3b-00-0", Original: podnet.Original{Name: "ens1"}}
	other := attach.Record{Claim: "2", Device: "pci-0000-5e-00-0", Original: podnet.Original{Name: "ens2"}}
	busy := errors.New("the host has another interface of that name")
	for _, step := range []struct {
		record attach.Record
		err    error
		lines  int
	}{
		{pulled, podnet.ErrNotBack, 1}, {pulled, podnet.ErrNotBack, 0}, {pulled, podnet.ErrNotBack, 0},
		{other, podnet.ErrNotBack, 1}, {pulled, busy, 1}, {pulled, busy, 0},
		{pulled, nil, 1}, {pulled, busy, 1}, // another pod, later
	} {
		logged.Reset()
		s.reportDetached(ctx, step.record, step.err)
		got := bytes.Count(logged.Bytes(), []byte("\n"))
		test.Eq(t, step.lines, got,
			test.Sprintf("%s, %v: %d lines, want %d:\n%s", step.record.Claim, step.err, got, step.lines, &logged))
	}
}

// TestSweepLogsOnce: an address that its plugin does not take back, and an unreadable record, are logged once for each
// reason, and not in each sweep.
func TestSweepLogsOnce(t *testing.T) {
	var logged bytes.Buffer
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&logged))))
	dir := t.TempDir()
	attacher, err := attach.New(nil, &podnet.IPAM{Owner: "rdma.dev", Dir: filepath.Join(dir, "no-plugins")}, dir, "boot")
	must.NoError(t, err)
	s := &interfaces{cfg: &Config{Report: noReport{}, Attacher: attacher}, locks: &flock.Names{}}
	leased := attach.Record{
		Version: 1, BootID: "boot", Claim: "1", Device: "pci-0000-3b-00-0", Pod: attach.Pod{UID: "a", Name: "default/a"},
		Lease: &podnet.Lease{Network: "roce", Config: []byte(`{"type":"host-local"}`)}, Detached: true,
	}
	record, err := json.Marshal(leased)
	must.NoError(t, err)
	lease, broken := filepath.Join(dir, leased.ID()+".json"), filepath.Join(dir, "broken.json")
	for i, step := range []struct {
		change func() error
		says   []string
	}{
		{func() error { return os.WriteFile(lease, record, 0o600) }, []string{"not given back"}},
		{nil, nil},
		{func() error { return os.WriteFile(broken, []byte("{"), 0o600) }, []string{"are not known"}},
		{nil, nil},
		{func() error { return os.Remove(broken) }, nil},
		{func() error { return os.WriteFile(broken, []byte("{"), 0o600) }, []string{"are not known"}},
	} {
		if step.change != nil {
			must.NoError(t, step.change())
		}
		logged.Reset()
		s.sweep(ctx)
		s.detachAll(ctx, nri.Pod{UID: "b"})
		lines := bytes.Count(logged.Bytes(), []byte("\n"))
		test.True(t, lines == len(step.says) && (lines <= 0 || strings.Contains(logged.String(), step.says[0])),
			test.Sprintf("step %d: the driver says %q, want %q", i, &logged, step.says))
	}
}

// TestSweepTemporaryFiles: a temporary file of a killed driver goes in a sweep of a later one, which started before the
// file was old enough.
func TestSweepTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	attacher, err := attach.New(nil, nil, dir, "boot")
	must.NoError(t, err)
	s := &interfaces{cfg: &Config{Report: noReport{}, Attacher: attacher}, locks: &flock.Names{}}
	temp := filepath.Join(dir, ".rdma.dev-1.tmp")
	must.NoError(t, os.WriteFile(temp, []byte("{"), 0o600))
	s.sweep(t.Context())
	_, err = os.Stat(temp)
	test.NoError(t, err, test.Sprint("a file that a writer may be at work on"))
	old := time.Now().Add(-2 * time.Minute)
	must.NoError(t, os.Chtimes(temp, old, old))
	s.sweep(t.Context())
	_, err = os.Stat(temp)
	test.ErrorIs(t, err, os.ErrNotExist, test.Sprint("a file of a killed writer"))
}

// noReport is a Reporter for nobody.
type noReport struct{}

func (noReport) Record(event.Event)                  {}
func (noReport) Note(string, string, string, ...any) {}
func (noReport) Warn(string, string, error)          {}
func (noReport) ContainerStarted(types.UID)          {}
