package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// capSysResource is the number of the capability that lets the hook raise a hard
// limit (include/uapi/linux/capability.h).
const capSysResource = 24

// raisedLimit is the locked memory limit that the hook can reach here, as
// /proc/PID/limits prints it: unlimited, or the hard limit where the container
// runtime lacks CAP_SYS_RESOURCE.
func raisedLimit(t *testing.T) string {
	t.Helper()
	status := readFile(t, "/proc/self/status")
	_, after, _ := strings.Cut(status, "CapEff:")
	caps, err := strconv.ParseUint(strings.Fields(after)[0], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(8 /* RLIMIT_MEMLOCK */, &limit); err != nil {
		t.Fatal(err)
	}
	if caps&(1<<capSysResource) != 0 || limit.Max == ^uint64(0) {
		return "unlimited"
	}
	return strconv.FormatUint(limit.Max, 10)
}

// view is what a container sees.
type view struct {
	nodes   string // of /dev/infiniband, by name
	numbers string // device numbers of the nodes, as stat prints them
	memlock string // soft limit of its first process
	env     string // RDMA_* variables
	user    string
	caps    string
}

// look asks a container.
func (n *namespace) look(pod, container string) view {
	n.t.Helper()
	out := n.sh(pod, container, strings.Join([]string{
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
	return view{answers["nodes"], answers["numbers"], answers["memlock"], answers["env"], answers["user"], answers["caps"]}
}

// hca is what the host has under a device name, read from the fixture's sysfs and
// not from our own programs.
type hca struct{ ibdev, uverbs, numbers, cm string }

// hostHCA looks up the HCA of a device named pci-DDDD-BB-DD-F.
func hostHCA(t *testing.T, device string) hca {
	t.Helper()
	parts := strings.Split(strings.TrimPrefix(device, "pci-"), "-")
	if len(parts) != 4 {
		t.Fatalf("device %q is not named after a PCI address", device)
	}
	address := parts[0] + ":" + parts[1] + ":" + parts[2] + "." + parts[3]
	function := filepath.Join(hostRoot, "sys/bus/pci/devices", address)
	uverbs := only(t, filepath.Join(function, "infiniband_verbs"))
	return hca{
		ibdev:   only(t, filepath.Join(function, "infiniband")),
		uverbs:  uverbs,
		numbers: hexNumber(t, filepath.Join(function, "infiniband_verbs", uverbs, "dev")),
		cm:      hexNumber(t, filepath.Join(hostRoot, "sys/class/misc/rdma_cm/dev")),
	}
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
	major, minor, _ := strings.Cut(strings.TrimSpace(readFile(t, path)), ":")
	var hex []string
	for _, s := range []string{major, minor} {
		v, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		hex = append(hex, strconv.FormatUint(v, 16))
	}
	return strings.Join(hex, ":")
}

// expect asserts that a container sees just that device, as an ordinary user.
func (n *namespace) expect(pod, container, device string) {
	n.t.Helper()
	h := hostHCA(n.t, device)
	want := view{
		nodes:   "rdma_cm " + h.uverbs,
		numbers: h.cm + " " + h.numbers,
		memlock: raisedLimit(n.t),
		env:     "RDMA_DEVICE_" + strings.ToUpper(strings.ReplaceAll(device, "-", "_")) + "=" + h.ibdev,
		user:    "1000",
		caps:    "0000000000000000",
	}
	if got := n.look(pod, container); got != want {
		n.t.Errorf("%s/%s sees %+v\nwant %+v", pod, container, got, want)
	}
	// The bundled host has no driver behind the numbers: ENXIO or ENODEV means that
	// the device cgroup let the open through.
	for _, node := range []string{h.uverbs, "rdma_cm"} {
		if got := n.sh(pod, container, "head -c1 /dev/infiniband/"+node); !strings.Contains(got, "No such device") {
			n.t.Errorf("%s/%s opens %s: %q, want \"No such device\"", pod, container, node, got)
		}
	}
}
