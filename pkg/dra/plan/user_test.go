package plan_test

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/runtime"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// userMemlock is the most that the class of FuzzUser allows.
const userMemlock = 1 << 20

// FuzzUser: whatever a user writes into the parameters of a claim, he gets the nodes for
// applications and no others, no mount, no more locked memory than his class allows, no
// more of the HCA than his share, and no variable but those of the libraries; or an error.
func FuzzUser(f *testing.F) {
	snap := rdmatest.Snapshot(f, "dgx-h100-ib")
	for _, fields := range []string{
		``, `"memlock": "unlimited"`, `"memlock": "1048577"`, `"memlock": -1`, `"memlock": "1Mi"`, `"memlock": "9223372036854775808"`,
		`"nodes": ["verbs", "mad"]`, `"nodes": ["sm"]`, `"nodes": ["umad0"]`, `"nodes": ["/dev/infiniband/umad0"]`, `"Nodes": ["mad"]`,
		`"nodes": ["verbs"], "nodes": ["verbs", "mad"]`, `"nodes": ["verbs", "cm"]`,
		`"mounts": [{"hostPath": "/", "containerPath": "/host"}]`, `"userspace": "host"`, `"deviceNodes": [{"path": "/dev/mem"}]`, `"hooks": []`,
		`"env": ["libfabric", "nccl", "nvshmem", "ucx", "ucx-gid-index"]`,
		`"env": ["LD_PRELOAD=/x"]`, `"env": {"LD_PRELOAD": "/x"}`,
		`"trafficClass": 106, "env": ["nccl", "ucx"]`, `"serviceLevel": 15, "env": ["nvshmem"]`, `"trafficClass": -1`,
		`"limits": {"handles": 11}`, `"limits": {"handles": "1k", "objects": "1G"}`, `"limits": {"handles": 5}`, `"limits": {"handles": -1}`,
		`"allow": {"nodes": ["mad"]}`, `"defaults": {"nodes": ["mad"]}`, `"allow": {"memlockMax": "unlimited"}`, `"kind": "HCAClassConfig", "allow": {"nodes": ["mad"]}`,
	} {
		raw := `{"apiVersion": "rdma.dev/v1alpha1", "kind": "HCAConfig"`
		if fields != "" {
			raw += ", " + fields
		}
		f.Add([]byte(raw+"}"), []byte(`{"apiVersion": "rdma.dev/v1alpha1", "kind": "HCAConfig"}`))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		wishes := []string{string(first), string(second)}
		class := fromClass(`"allow": {"memlockMax": "` + strconv.Itoa(userMemlock) + `"}`)
		c := claim(one(consuming(share(result("nic", "shared-pci-0000-18-00-0"), "s1"), "handles", "10", "objects", "100")), class)
		for _, w := range wishes {
			own := fromClaim("")
			own.Opaque.Parameters = runtime.RawExtension{Raw: []byte(w)}
			c.Status.Allocation.Devices.Config = append(c.Status.Allocation.Devices.Config, own)
		}
		p, err := plan.New(c, here)
		if err != nil {
			return
		}
		spec, err := p.Spec(snap, hook, "")
		must.NoError(t, err, must.Sprintf("a plan without a spec: %v: %s", err, wishes))
		l := p.Devices[0].Limits
		test.True(t, l.Handles <= 10 && l.Objects <= 100 && l.Handles >= 1 && l.Objects >= 1,
			test.Sprintf("limits %+v: %s", l, wishes))
		checkUserEdits(t, spec.ContainerEdits)
		for _, d := range spec.Devices {
			checkUserEdits(t, d.ContainerEdits)
		}
	})
}

// checkUserEdits checks what a spec does to a container.
func checkUserEdits(t *testing.T, edits specs.ContainerEdits) {
	t.Helper()
	for _, n := range edits.DeviceNodes {
		dir, name := path.Split(n.Path)
		if dir != "/dev/infiniband/" || name != "rdma_cm" && !strings.HasPrefix(name, "uverbs") || n.HostPath != "" && n.HostPath != n.Path || n.Permissions != "rw" {
			t.Errorf("node %+v", n)
		}
	}
	test.True(t, len(edits.Mounts) == 0 && edits.IntelRdt == nil && len(edits.AdditionalGIDs) == 0 &&
		len(edits.NetDevices) == 0, test.Sprintf("edits %+v", edits))
	for _, e := range edits.Env {
		name, _, _ := strings.Cut(e, "=")
		known := []string{
			"FI_VERBS_DEVICE_NAME", "NCCL_IB_HCA", "NVSHMEM_HCA_LIST", "NVSHMEM_ENABLE_NIC_PE_MAPPING", "UCX_NET_DEVICES",
			"RDMA_DEVICE_PCI_0000_18_00_0",
		}
		test.True(t, slices.Contains(known, name), test.Sprintf("variable %s", e))
	}
	for _, h := range edits.Hooks {
		test.Eq(t, hook.Path, h.Path, test.Sprint("hook"))
		if i := slices.Index(h.Args, "--memlock"); i >= 0 {
			bytes, err := strconv.ParseInt(h.Args[i+1], 10, 64)
			test.True(t, err == nil && bytes <= userMemlock, test.Sprintf("hook %q", h.Args))
		}
	}
}
