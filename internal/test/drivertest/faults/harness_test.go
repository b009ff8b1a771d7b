package faults

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/invariants"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/sysfault"
)

// faulty is a node whose driver, a program, has its system calls supervised.
type faulty struct {
	*drivertest.Node
	*sysfault.Supervisor
	t testing.TB
}

func newFaulty(t testing.TB, machine string) *faulty {
	t.Helper()
	needs.Proof(t, "each of its calls starts a driver")
	drivertest.RequireRoot(t)
	if err := sysfault.Available(); err != nil {
		needs.Missing(t, err)
	}
	return &faulty{drivertest.NewNode(t, machine), sysfault.New(t), t}
}

// launch starts the driver and does not wait for it.
func (f *faulty) launch(flags ...string) *drivertest.Process {
	f.t.Helper()
	return drivertest.Launch(f.t, f.Command(drivertest.Binary(f.t), append(f.Args(f.t, ""), flags...)...)...)
}

// start starts the driver and waits until the kubelet has registered it.
func (f *faulty) start(flags ...string) *drivertest.Process {
	f.t.Helper()
	p := f.launch(flags...)
	must.True(f.t, f.registered(p), must.Sprintf("the driver ended: %s", p.Output()))
	return p
}

// registered waits until the kubelet has registered a driver, and reports whether it
// came to that: a driver may end before.
func (f *faulty) registered(p *drivertest.Process) bool {
	f.t.Helper()
	serves := false
	drivertest.Eventually(f.t, func() error {
		if p.HasEnded() {
			return nil
		}
		if serves = len(f.Sockets()) > 0; !serves {
			return errors.New("the driver neither serves nor ends")
		}
		return nil
	})
	return serves
}

// end kills a driver, and makes the kubelet notice.
func (f *faulty) end(p *drivertest.Process) {
	p.Kill()
	f.Disconnect()
}

// own are the directories that the driver writes to, host where it reads the hardware.
func (f *faulty) own() []string { return []string{f.CDIDir, f.StateDir, f.PluginDir()} }

func (f *faulty) host() []string {
	var dirs []string
	for _, dir := range []string{"sys", "dev"} {
		real, err := filepath.EvalSymlinks(filepath.Join(f.Root, dir))
		must.NoError(f.t, err)
		dirs = append(dirs, real, filepath.Join(f.Root, dir))
	}
	return dirs
}

// prepare asks for one claim.
func prepare(ctx context.Context, n *drivertest.Node, c *resourceapi.ResourceClaim) error {
	response, err := n.Prepare(ctx, c)
	if err == nil {
		_, err = drivertest.Devices(response, c)
	}
	return err
}

// unprepare ends one claim.
func unprepare(ctx context.Context, n *drivertest.Node, c *resourceapi.ResourceClaim) error {
	response, err := n.Unprepare(ctx, c)
	if err != nil {
		return err
	}
	answer, ok := response.Claims[string(c.UID)]
	switch {
	case !ok:
		return fmt.Errorf("the answer has no claim %s", c.Name)
	case answer.Error != "":
		return errors.New(answer.Error)
	}
	return nil
}

func (f *faulty) prepareOnce(c *resourceapi.ResourceClaim) error {
	return prepare(drivertest.Context(f.t), f.Node, c)
}

func (f *faulty) unprepareOnce(c *resourceapi.ResourceClaim) error {
	return unprepare(drivertest.Context(f.t), f.Node, c)
}

// atRest waits until the files are as they must be.
func (f *faulty) atRest(c invariants.Claims) {
	f.t.Helper()
	drivertest.Eventually(f.t, func() error { return invariants.AtRest(f.Worker, c) })
}
