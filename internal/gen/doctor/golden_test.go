package doctor

import (
	"testing"

	"github.com/shoenig/test/must"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// goldens are whole reports: machines as they are, and one where much is wrong.
var goldens = []struct {
	name, machine string
	plant         func(*fake)
}{
	{"hgx-h100", "hgx-h100", func(*fake) {}},
	{"dgx-h100-ib", "dgx-h100-ib", func(*fake) {}},
	{"aws-p5", "aws-p5", func(f *fake) { f.limits("812", eightMiB, eightMiB) }},
	{"azure-ndv5-ib", "azure-ndv5-ib", func(*fake) {}},
	{"roce-sriov", "roce-sriov", func(*fake) {}},
	{"soft-pci", "soft-pci", func(f *fake) { f.remove(specPath) }},
	{"switchdev", "switchdev", func(*fake) {}},
	{"misbehaving", "misbehaving", func(*fake) {}},
	{"none", "none", func(f *fake) { f.output = nil; f.remove("/proc/812/comm") }},
	{"broken", "hgx-h100", plantMuch},
	{"host-root", "hgx-h100", func(f *fake) {
		f.host.Local = false
		f.remove("/proc/812/comm")
		f.remove("/etc/cdi/rdma.dev-hca.yaml")
	}},
}

// plantMuch is the host of a bad day.
func plantMuch(f *fake) {
	f.limits("812", eightMiB, eightMiB)
	f.limits("self", "65536", eightMiB)
	f.host.UID = 1000
	f.output["containerd"] = "containerd containerd.io 1.7.27 05044ec0a9a7\n"
	f.remove(hookPath)
	f.remove("/dev/infiniband/uverbs5")
	f.chmod("/dev/infiniband/umad2", 0o666)
	f.port("mlx5_3", "state", "1: DOWN\n")
	f.port("mlx5_3", "phys_state", "2: Polling\n")
	f.respec(func(s *specs.Spec) {
		s.Version = "0.7.0"
		s.ContainerEdits.AdditionalGIDs = []uint32{44}
	})
	f.spec("/etc/cdi/rdma.dev-hca.json", f.newSpec(cdi.KindHCA, "/dev/infiniband/uverbs0"))
	f.file("/etc/cdi/gpu.yml", gpuSpec)
	f.chmod("/etc/cdi/rdma.dev-hca.json", 0o600)
	f.sys("module/nvidia/version", "535.1\n")
	f.remove("/proc/self/mountinfo")
}

func TestGolden(t *testing.T) {
	for _, g := range goldens {
		t.Run(g.name, func(t *testing.T) {
			f := newFake(t, g.machine)
			g.plant(f)
			golden.Bytes(t, g.name+".txt", []byte(render(t, f.diagnose())))
		})
	}
}

// The JSON form is an interface for scripts.
func TestGoldenJSON(t *testing.T) {
	f := newFake(t, "hgx-h100")
	plantMuch(f)
	golden.JSON(t, "broken", f.diagnose())
}

// The same host has the same report.
func TestDeterministic(t *testing.T) {
	f := newFake(t, "misbehaving")
	first := render(t, f.diagnose())
	for range 5 {
		must.Eq(t, first, render(t, f.diagnose()))
	}
}
