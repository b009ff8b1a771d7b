package pods

import (
	"bytes"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/rdma-dev/dra-driver-rdma/internal/podnet"
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
		s.detached(ctx, step.record, step.err)
		if got := bytes.Count(logged.Bytes(), []byte("\n")); got != step.lines {
			t.Errorf("%s, %v: %d lines, want %d:\n%s", step.record.Claim, step.err, got, step.lines, &logged)
		}
	}
}

// noReport is a Reporter for nobody.
type noReport struct{}

func (noReport) Record(event.Event)                  {}
func (noReport) Note(string, string, string, ...any) {}
func (noReport) Warn(string, string, error)          {}
func (noReport) ContainerStarted(types.UID)          {}
