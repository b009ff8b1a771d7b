package rdmacgroup_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmacgroup"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// TestEnforced: the rdma controller of cgroup v2, of both versions side by side,
// and of v1.
func TestEnforced(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"v2":                      {map[string]string{"cgroup.controllers": "cpuset cpu io memory hugetlb pids rdma misc\n"}, true},
		"v2 without":              {map[string]string{"cgroup.controllers": "cpuset cpu io memory hugetlb pids\n"}, false},
		"v2, another word":        {map[string]string{"cgroup.controllers": "cpu rdmax\n"}, false},
		"v1":                      {map[string]string{"rdma/tasks": "", "memory/tasks": ""}, true},
		"v1 without":              {map[string]string{"memory/tasks": ""}, false},
		"v1 and v2, rdma in v2":   {map[string]string{"memory/tasks": "", "unified/cgroup.controllers": "rdma\n"}, true},
		"v1 and v2, rdma in none": {map[string]string{"memory/tasks": "", "unified/cgroup.controllers": "\n"}, false},
		"nothing":                 {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := drivertest.TempDir(t)
			for file, content := range tc.files {
				path := filepath.Join(root, "sys/fs/cgroup", file)
				must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				must.NoError(t, os.WriteFile(path, []byte(content), 0o644))
			}
			err := rdmacgroup.Enforced(root)
			test.Eq(t, tc.want, (err == nil), test.Sprintf("error is %v", err))
			if err != nil && !strings.Contains(err.Error(), "CONFIG_CGROUP_RDMA") {
				t.Errorf("error does not say what is missing: %v", err)
			}
		})
	}
}
