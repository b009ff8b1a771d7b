package sandbox

import (
	"reflect"
	"testing"

	"github.com/shoenig/test"
)

func TestParseHierarchies(t *testing.T) {
	tests := []struct {
		name, mounts, self string
		want               []Hierarchy
		dirs               []string
	}{
		{
			name: "version 2, systemd",
			mounts: `sysfs /sys sysfs rw,nosuid,nodev,noexec,relatime 0 0
cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate,memory_recursiveprot 0 0
`,
			self: "0::/user.slice/user-0.slice/session-1.scope\n",
			want: []Hierarchy{{Mount: "/sys/fs/cgroup", V2: true, Only: true, Current: "/user.slice/user-0.slice/session-1.scope"}},
			dirs: []string{"/sys/fs/cgroup/dra-driver-rdma-cluster"},
		},
		{
			name: "hybrid",
			mounts: `tmpfs /sys/fs/cgroup tmpfs rw,relatime,mode=755 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,nodev,noexec,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,xattr,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
`,
			self: "4:memory:/jobs/1\n2:cpu,cpuacct:/\n9:name=systemd:/\n0::/\n",
			want: []Hierarchy{
				{Mount: "/sys/fs/cgroup/memory", Controllers: "memory", Current: "/jobs/1"},
				{Mount: "/sys/fs/cgroup/cpu,cpuacct", Controllers: "cpu,cpuacct", Current: "/"},
				{Mount: "/sys/fs/cgroup/systemd", Controllers: "name=systemd", Current: "/"},
				{Mount: "/sys/fs/cgroup/unified", V2: true, Current: "/"},
			},
			dirs: []string{
				"/sys/fs/cgroup/memory/jobs/1/dra-driver-rdma-cluster",
				"/sys/fs/cgroup/cpu,cpuacct/dra-driver-rdma-cluster",
				"/sys/fs/cgroup/systemd/dra-driver-rdma-cluster",
				"/sys/fs/cgroup/unified/dra-driver-rdma-cluster",
			},
		},
		{name: "none mounted", mounts: "proc /proc proc rw 0 0\n", self: "0::/\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := parseHierarchies(tt.mounts, tt.self)
			test.True(t, reflect.DeepEqual(got, tt.want), test.Sprintf("got  %+v\nwant %+v", got, tt.want))
			for i, h := range got {
				h.Name = "dra-driver-rdma-cluster"
				test.Eq(t, tt.dirs[i], h.dir(), test.Sprint("cgroup"))
			}
		})
	}
}

func TestIsCovered(t *testing.T) {
	for path, want := range map[string]bool{
		"/var/cache/x": true, "/run/user/0": true, "/opt/src": true,
		"/home/me": false, "/tmp/x": false, "/variety": false, "/": false,
	} {
		test.Eq(t, want, isCovered(path), test.Sprintf("isCovered(%q)", path))
	}
}
