package claimstore_test

import (
	"os"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
)

func enter(t *testing.T, dir, pluginDir string) *claimstore.Presence {
	t.Helper()
	p, err := claimstore.Enter(dir, pluginDir, thisBoot)
	must.NoError(t, err)
	return p
}

func leave(t *testing.T, p *claimstore.Presence, wantLast bool) {
	t.Helper()
	last, err := p.Leave(func() error { return nil })
	must.True(t, err == nil && last == wantLast,
		must.Sprintf("the presence ended with last=%v and error %v, want last=%v", last, err, wantLast))
}

func listed(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.NoError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestLastLeaves: with no claim prepared the last driver leaves nothing.
func TestLastLeaves(t *testing.T) {
	pluginDir, dir := tempDir(t), tempDir(t)
	first, second := enter(t, dir, pluginDir), enter(t, dir, pluginDir)
	open(t, dir, thisBoot)
	leave(t, first, false)
	leave(t, second, true)
	test.SliceEmpty(t, append(listed(t, pluginDir), listed(t, dir)...), test.Sprint("left"))
}

// TestOtherStateDir: a driver that is to keep records elsewhere than the claims of this boot
// have them does not start. After a boot it does.
func TestOtherStateDir(t *testing.T) {
	pluginDir, dir, other := tempDir(t), tempDir(t), tempDir(t)
	p := enter(t, dir, pluginDir)
	claim(t, open(t, dir, thisBoot), planOf("u1", "d1"))
	leave(t, p, false)
	_, err := claimstore.Enter(other, pluginDir, thisBoot)
	for _, says := range []string{dir, "drain the node"} {
		test.ErrorContains(t, err, says)
	}
	leave(t, enter(t, dir, pluginDir), false)
	next := claimstore.Boot{ID: "boot-3"}
	after, err := claimstore.Enter(other, pluginDir, next)
	must.NoError(t, err, must.Sprint("after a boot"))
	open(t, other, next)
	leave(t, after, true)
}
