package claims

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// TestOneHost: the spec of a claim and its files are of the host that they are made for, also if the node has read
// another one meanwhile.
func TestOneHost(t *testing.T) {
	const name, ibdev = dev0, "mlx5_0"
	worker := drivertest.NewWorker(t, "hgx-h100")
	store, n := openNode(t, worker)
	host := n.Host()
	before := host.Lookup(name)
	must.True(t, before != nil && before.IBDev == ibdev && before.Firmware != "",
		must.Sprintf("the host has %+v", before))
	const newer = "99.1.2"
	firmware := filepath.Join(worker.Root, "sys/class/infiniband", ibdev, "fw_ver")
	must.NoError(t, os.WriteFile(firmware, []byte(newer+"\n"), 0o644))
	if err := n.Rescan(); err != nil || n.Host().Lookup(name).Firmware != newer {
		t.Fatalf("the node has %v, %v", n.Host().Lookup(name), err)
	}
	p := &plan.Plan{
		UID: "uid-1", Namespace: "team-a", Name: "nics", Metadata: &plan.Metadata{Dir: "/run/files/uid-1"},
		Devices: []plan.Device{{
			Request: "nic", Pool: "node1", Device: name, Settings: plan.Settings{Nodes: []rdma.NodeClass{rdma.ClassVerbs}},
		}},
	}
	spec, err := New(Config{Node: n, Store: store}).makeSpec(host, p)
	must.True(t, err == nil && spec.errFiles == nil && len(spec.files) == 1, must.Sprintf("%+v, %v", spec, err))
	text := string(spec.files[0].Data)
	test.True(t, strings.Contains(text, before.Firmware) && !strings.Contains(text, newer),
		test.Sprintf("the file is of another host: %s", text))
}

// TestCPUModelTriedAgain: a processor model that could not be read once is read for the next claim.
func TestCPUModelTriedAgain(t *testing.T) {
	m := cpuModel{path: filepath.Join(t.TempDir(), "cpuinfo")}
	if cpu, err := m.read(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("without a file: %v, %v", cpu, err)
	}
	const text = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
	must.NoError(t, os.WriteFile(m.path, []byte(text), 0o600))
	cpu, err := m.read()
	must.True(t, err == nil && cpu != (topology.CPU{}), must.Sprintf("with a file: %v, %v", cpu, err))
	must.NoError(t, os.Remove(m.path))
	again, err := m.read()
	test.True(t, err == nil && again == cpu, test.Sprintf("a model that is known: %v, %v", again, err))
}
