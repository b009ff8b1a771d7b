package runtimeconf_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
)

// TestUserOf: a program of root that a user has started, under a name of the user's choice, is not root's.
func TestUserOf(t *testing.T) {
	for name, tc := range map[string]struct {
		status string
		mode   fs.FileMode
		uid    int
		ok     bool
	}{
		"root's":            {"Uid:\t0\t0\t0\t0\n", 0o755, 0, true},
		"a user's":          {"Uid:\t1000\t1000\t1000\t1000\n", 0o755, 1000, true},
		"root for a user":   {"Uid:\t1000\t0\t0\t0\n", 0o4755, -1, false},
		"root, set-user-ID": {"Uid:\t0\t0\t0\t0\n", 0o755 | fs.ModeSetuid, -1, false},
		"without a status":  {"", 0o755, -1, false},
	} {
		root := fstest.MapFS{"proc/9/exe": {Mode: tc.mode}}
		uid, ok := runtimeconf.UserOf(root, "/proc/9", tc.status)
		test.True(t, uid == tc.uid && ok == tc.ok, test.Sprintf("%s: user %d, %v", name, uid, ok))
	}
}
