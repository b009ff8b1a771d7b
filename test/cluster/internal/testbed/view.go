package testbed

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// capSysResource is the number of the capability that lets the hook raise a hard
// limit (include/uapi/linux/capability.h).
const capSysResource = 24

// RaisedLimit is the locked memory limit that the hook can reach here, as
// /proc/PID/limits prints it: unlimited, or the hard limit where the container
// runtime lacks CAP_SYS_RESOURCE.
func RaisedLimit(t *testing.T) string {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(8 /* RLIMIT_MEMLOCK */, &limit); err != nil {
		t.Fatal(err)
	}
	if mayRaise(t) || limit.Max == ^uint64(0) {
		return "unlimited"
	}
	return strconv.FormatUint(limit.Max, 10)
}

// mayRaise says whether we hold CAP_SYS_RESOURCE.
func mayRaise(t *testing.T) bool {
	t.Helper()
	status := ReadFile(t, "/proc/self/status")
	_, after, _ := strings.Cut(status, "CapEff:")
	caps, err := strconv.ParseUint(strings.Fields(after)[0], 16, 64)
	must.NoError(t, err)
	return caps&(1<<capSysResource) != 0
}

// View is what a container sees.
type View struct {
	Nodes   string // of /dev/infiniband, by name
	Numbers string // device numbers of the nodes, as stat prints them
	Memlock string // soft limit of its first process
	Env     string // RDMA_*, NCCL_* and UCX_* variables
	User    string
	Caps    string
}

// Look asks a container.
func (n *Namespace) Look(pod, container string) View {
	n.t.Helper()
	out := n.Sh(pod, container, strings.Join([]string{
		`echo nodes: $(ls /dev/infiniband 2>/dev/null)`,
		`echo numbers: $(cd /dev/infiniband 2>/dev/null && stat -c %t:%T *)`,
		`echo memlock: $(awk '/locked memory/ {print $4}' /proc/1/limits)`,
		`echo env: $(env | grep -E '^(RDMA_|NCCL_|UCX_)' | sort)`,
		`echo user: $(id -u)`,
		`echo caps: $(awk '/CapEff/ {print $2}' /proc/1/status)`,
	}, "; "))
	answers := map[string]string{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(line, ":")
		answers[key] = strings.TrimSpace(value)
	}
	return View{answers["nodes"], answers["numbers"], answers["memlock"], answers["env"], answers["user"], answers["caps"]}
}

// Expect asserts that a container sees just these devices, as an ordinary user.
func (n *Namespace) Expect(pod, container string, devices ...string) {
	n.t.Helper()
	n.expect(pod, container, RaisedLimit(n.t), devices)
}

// ExpectOtherUsers is Expect for a container in a user namespace. There nobody touches its
// locked memory limit without CAP_SYS_RESOURCE: it keeps the container runtime's.
func (n *Namespace) ExpectOtherUsers(pod, container string, devices ...string) {
	n.t.Helper()
	limit := "unlimited"
	if !mayRaise(n.t) {
		limit = "65536"
	}
	n.expect(pod, container, limit, devices)
}

func (n *Namespace) expect(pod, container, memlock string, devices []string) {
	n.t.Helper()
	numbers := map[string]string{}
	if cm := filepath.Join(n.HostRoot, "sys/class/misc/rdma_cm/dev"); exists(cm) {
		numbers["rdma_cm"] = hexNumber(n.t, cm)
	}
	var env, nodes, minors []string
	for _, device := range devices {
		h := n.HostHCA(n.t, device)
		numbers[h.Uverbs] = h.Numbers
		env = append(env, "RDMA_DEVICE_"+strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(device, "shared-"), "-", "_"))+"="+h.IBDev)
	}
	slices.Sort(env)
	for _, node := range slices.Sorted(maps.Keys(numbers)) {
		nodes, minors = append(nodes, node), append(minors, numbers[node])
	}
	want := View{
		Nodes: strings.Join(nodes, " "), Numbers: strings.Join(minors, " "), Memlock: memlock,
		Env: strings.Join(env, " "), User: "1000", Caps: "0000000000000000",
	}
	test.EqOp(n.t, want, n.Look(pod, container), test.Sprintf("%s/%s sees", pod, container))
	n.opens(pod, container, nodes)
}

// opens asserts that a container may open device nodes. The bundled hosts have no
// driver behind the numbers: ENXIO or ENODEV means that the device cgroup let the
// open through.
func (n *Namespace) opens(pod, container string, nodes []string) {
	n.t.Helper()
	out := n.Sh(pod, container, "cd /dev/infiniband; for n in "+strings.Join(nodes, " ")+"; do head -c1 $n; done")
	if got := strings.Count(out, "No such device"); got != len(nodes) {
		n.t.Errorf("%s/%s may open %d of %s: %q, want \"No such device\" for each", pod, container, got, nodes, out)
	}
}

// HCA is what the host has under a device name, read from the fixture's sysfs and
// not from our own programs.
type HCA struct{ IBDev, Uverbs, Numbers string }

// HostHCA looks up the HCA of a device named [shared-]pci-DDDD-BB-DD-F.
func (b *Bed) HostHCA(t *testing.T, device string) HCA {
	t.Helper()
	function := filepath.Join(b.HostRoot, "sys/bus/pci/devices", address(device))
	uverbs := only(t, filepath.Join(function, "infiniband_verbs"))
	return HCA{
		IBDev:   only(t, filepath.Join(function, "infiniband")),
		Uverbs:  uverbs,
		Numbers: hexNumber(t, filepath.Join(function, "infiniband_verbs", uverbs, "dev")),
	}
}

// address is the PCI address that a device named [shared-]pci-DDDD-BB-DD-F is named
// after, or the name itself if it is named otherwise.
func address(device string) string {
	parts := strings.Split(strings.TrimPrefix(strings.TrimPrefix(device, "shared-"), "pci-"), "-")
	if len(parts) != 4 {
		return device
	}
	return parts[0] + ":" + parts[1] + ":" + parts[2] + "." + parts[3]
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func only(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%s has %v (%v), want one entry", dir, entries, err)
	}
	return entries[0].Name()
}

// hexNumber reads a dev file and returns the number as stat -c %t:%T prints it.
func hexNumber(t *testing.T, path string) string {
	t.Helper()
	major, minor, _ := strings.Cut(strings.TrimSpace(ReadFile(t, path)), ":")
	var hex []string
	for _, s := range []string{major, minor} {
		v, err := strconv.ParseUint(s, 10, 32)
		must.NoError(t, err)
		hex = append(hex, strconv.FormatUint(v, 16))
	}
	return strings.Join(hex, ":")
}
