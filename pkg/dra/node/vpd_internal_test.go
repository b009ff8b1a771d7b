package node

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/counted"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// openedIn returns a node whose memory is in a directory, in a boot.
func openedIn(t *testing.T, dir, boot string, sys fs.ReadLinkFS) *Node {
	t.Helper()
	store, err := claimstore.Open(dir, claimstore.Boot{ID: boot})
	must.NoError(t, err)
	n, err := Open(Config{HostRoot: "/", Sys: sys, Store: store, Health: health.DefaultConfig()})
	must.NoError(t, err)
	return n
}

func countedMachine(t *testing.T, name string) *counted.FS {
	t.Helper()
	m, err := fixture.Load(name)
	must.NoError(t, err)
	return counted.New(m.FS(t))
}

// TestVPDOnceABoot: the first driver of a boot reads VPD, and no later one does.
func TestVPDOnceABoot(t *testing.T) {
	dir, sys := drivertest.TempDir(t), countedMachine(t, "hgx-b200")
	for _, step := range []struct {
		boot string
		want int
	}{{"a", 12}, {"a", 0}, {"b", 12}} {
		sys.Reset()
		n := openedIn(t, dir, step.boot, sys)
		usable := len(n.Host().Usable())
		test.True(t, usable == 8 && sys.VPD == step.want,
			test.Sprintf("boot %s: %d HCAs are usable, and VPD is read %d times; want 8 and %d", step.boot,
				usable, sys.VPD, step.want))
	}
}

// TestVPDDenied: a driver that may not read VPD leaves the next one to try.
func TestVPDDenied(t *testing.T) {
	dir, sys := drivertest.TempDir(t), &vpdFS{FS: countedMachine(t, "hgx-b200")}
	sys.open = func(name string) (fs.File, error) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	n := openedIn(t, dir, "a", sys)
	test.True(t, len(n.Host().Usable()) == 12 && len(n.Host().VPDProblems) == 12,
		test.Sprintf("%d HCAs are usable, problems %v; want 12 and 12", len(n.Host().Usable()),
			n.Host().VPDProblems))
	sys.open = nil
	test.Eq(t, 8, len(openedIn(t, dir, "a", sys).Host().Usable()),
		test.Sprint("HCAs are usable when VPD may be read"))
}

// TestPrepareWaitsForNoVPD: a card comes that does not answer. A claim that is prepared reads the host meanwhile, as
// Settle does, and nobody gets the new HCAs until the time of the card is over.
func TestPrepareWaitsForNoVPD(t *testing.T) {
	sys := &vpdFS{FS: countedMachine(t, "none")}
	n := openedIn(t, drivertest.TempDir(t), "a", sys)
	asked, release := make(chan struct{}, 12), make(chan struct{})
	sys.FS = countedMachine(t, "hgx-b200")
	sys.open = func(string) (fs.File, error) {
		asked <- struct{}{}
		<-release
		return nil, errors.New("no answer")
	}
	if err := n.Rescan(); err != nil { // as Settle does
		t.Fatal(err)
	}
	hcas, usable := len(n.Host().HCAs), len(n.Host().Usable())
	test.True(t, hcas == 12 && usable == 0 && len(asked) == 0,
		test.Sprintf("%d HCAs, %d of them usable, VPD asked for %d times; want 12, 0 and 0", hcas, usable,
			len(asked)))
	done := make(chan error)
	go func() { _, err := n.readVPD(t.Context()); done <- err }()
	<-asked
	if err := n.Rescan(); err != nil { // returns, though a card hangs
		t.Fatal(err)
	}
	close(release)
	must.NoError(t, <-done)
	if usable := len(n.Host().Usable()); usable != 12 || n.Host().HCAs[0].Purpose != rdma.PurposeUnknown {
		t.Errorf("%d HCAs are usable, the first for %q; want 12, and not known", usable, n.Host().HCAs[0].Purpose)
	}
}

// TestVPDOfStoppedDriver: what a driver did not get because it ended is no fault of a card.
func TestVPDOfStoppedDriver(t *testing.T) {
	sys := &vpdFS{FS: countedMachine(t, "none")}
	n := openedIn(t, drivertest.TempDir(t), "a", sys)
	sys.FS = countedMachine(t, "hgx-b200")
	must.NoError(t, n.Rescan())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := n.readVPD(ctx)
	test.True(t, err == nil && len(n.scanner.UnreadVPD()) == 12,
		test.Sprintf("error %v, VPD to read %d; want none and 12", err, len(n.scanner.UnreadVPD())))
}

// vpdFS lets reads of VPD go another way.
type vpdFS struct {
	*counted.FS
	open func(string) (fs.File, error)
}

func (f *vpdFS) Open(name string) (fs.File, error) {
	if path.Base(name) == "vpd" && f.open != nil {
		return f.open(name)
	}
	return f.FS.Open(name)
}
