package doctor

import (
	"testing"

	"github.com/shoenig/test"
)

func TestFindNoexec(t *testing.T) {
	const table = `1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 0:2 / /run rw,nosuid,noexec shared:1 - tmpfs tmpfs rw
3 2 0:3 / /run/exec rw - tmpfs tmpfs rw
4 1 0:4 / /mnt/a\040b rw,noexec - tmpfs tmpfs rw
5 1 0:5 / /opt rw,noexec - tmpfs tmpfs rw
6 1 0:6 / /opt rw - tmpfs tmpfs rw
garbage
`
	for name, want := range map[string]string{
		"/usr/bin/rdma-hook": "", "/run/hook": "/run", "/run/exec/hook": "", "/runaway/hook": "", "/mnt/a b/hook": "/mnt/a b",
		"/opt/hook": "",
	} {
		test.Eq(t, want, findNoexec(table, name), test.Sprint(name))
	}
}
