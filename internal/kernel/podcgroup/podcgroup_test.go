package podcgroup

import (
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
)

const (
	uid   = "0f1e2d3c-0000-4000-8000-00000000000a"
	outer = "11111111-0000-4000-8000-00000000000b"
)

func TestOfProcess(t *testing.T) {
	underscored := strings.ReplaceAll(uid, "-", "_")
	for text, want := range map[string]string{
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + underscored +
			".slice/cri-containerd-1.scope\n": uid,
		"0::/kubepods.slice/kubepods-pod" + underscored +
			".slice/crio-1.scope/container\n": uid,
		"12:rdma:/kubepods/besteffort/pod" + uid + "/1\n11:cpu,cpuacct:/kubepods/besteffort/pod" + uid +
			"/1\n0::/\n": uid,
		"1:name=systemd:/user.slice\n12:rdma:/kubepods/pod" + uid +
			"/1\n": uid,
		"0::/kubepods/pod" + outer + "/1/kubelet/kubepods/pod" + uid +
			"/2\n": uid,
		"0::/system.slice/containerd.service\n": "",
		"0::/../pod" + uid + "x\n":              "",
		"0::/mypod" + uid + "\n":                "",
		"":                                      "",
		"garbage":                               "",
	} {
		test.Eq(t, want, OfProcess(text), test.Sprintf("%q", text))
	}
}

// pattern is what UID takes, as a regular expression: too slow to compile for the hook.
var pattern = regexp.MustCompile(`(?:^|-)pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?$`)

func FuzzUID(f *testing.F) {
	f.Add("kubepods-besteffort-pod0f1e2d3c_0000_4000_8000_00000000000a.slice")
	f.Add("pod" + uid)
	f.Add("pod-pod0123456789abcdef0123456789abcdef")
	f.Add("pod0123456789abcdef0123456789abcdef.slice.slice")
	f.Fuzz(func(t *testing.T, name string) {
		want := ""
		if m := pattern.FindStringSubmatch(name); m != nil {
			want = strings.ReplaceAll(m[1], "_", "-")
		}
		test.Eq(t, want, UID(name), test.Sprintf("%q", name))
	})
}
