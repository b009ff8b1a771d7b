package topology_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// machines are those whose whole output is pinned, each for another shape.
var machines = []string{
	"hgx-h100",        // a GPU and an HCA below each switch
	"dgx-h100-ib",     // also cards with two functions, and a port that is down
	"aws-p5",          // four HCAs for each GPU: a matrix of HCAs against GPUs
	"roce-sriov",      // VFs, folded
	"mlx5-sf",         // SFs, folded
	"azure-ndv5-ib",   // no switches, NUMA nodes not known
	"soft",            // no hardware
	"soft-pci",        // no hardware of their own, some on network cards
	"smi-multiplane",  // two HCAs on one function
	"gb300-cx8",       // GPUs and HCAs whose card has a DMA function below the GPU's switch
	"hgx-b200",        // functions that manage NVSwitches
	"hgx-b300",        // the card's own switch above the GPU
	"hgx-b300-planes", // two HCAs of a card beside each GPU
	"amd-pollara",     // AMD's GPUs, and cards with bridges of their own
	"gaudi2",          // accelerators that are HCAs
	"gb200-cx7",       // nothing but NUMA nodes in common
	"none",            // nothing
}

// TestGolden: every writer, on every machine.
func TestGolden(t *testing.T) {
	for _, name := range machines {
		t.Run(name, func(t *testing.T) {
			host := discover(t, name)
			golden.Bytes(t, name+".txt", text(t, host, topology.BoxLines))
			golden.Bytes(t, name+".svg", written(t, host.WriteSVG))
			golden.Bytes(t, name+".json", written(t, func(w io.Writer) error {
				enc := json.NewEncoder(w)
				enc.SetIndent("", " ")
				return enc.Encode(host.Report())
			}))
		})
	}
	golden.Bytes(t, "hgx-h100.ascii.txt", text(t, discover(t, "hgx-h100"), topology.ASCIILines))
}

// TestGoldenFilesAreUsed: a machine that was renamed leaves no file behind.
func TestGoldenFilesAreUsed(t *testing.T) {
	want := []string{"testdata/hgx-h100.ascii.txt", "testdata/odd.txtar", "testdata/vllm.txt"}
	for _, name := range ncclMachines {
		want = append(want, filepath.Join("testdata", name+".nccl.xml"))
	}
	for _, name := range machines {
		for _, ext := range []string{".json", ".svg", ".txt"} {
			want = append(want, filepath.Join("testdata", name+ext))
		}
	}
	slices.Sort(want)
	files, err := filepath.Glob("testdata/*.*")
	must.NoError(t, err)
	slices.Sort(files)
	test.Eq(t, want, files, test.Sprint("golden files"))
}

// TestDeterministic: maps are used on the way, and must not show.
func TestDeterministic(t *testing.T) {
	for _, name := range machines {
		first := written(t, discover(t, name).WriteSVG)
		for range 3 {
			must.True(t, bytes.Equal(first, written(t, discover(t, name).WriteSVG)),
				must.Sprintf("%s: two pictures of one machine", name))
		}
	}
}

func text(t testing.TB, host *topology.Topology, lines topology.Lines) []byte {
	t.Helper()
	return written(t, func(w io.Writer) error {
		if err := host.WriteTree(w, lines); err != nil {
			return err
		}
		fmt.Fprintln(w)
		return host.WriteMatrix(w)
	})
}

func written(t testing.TB, write func(io.Writer) error) []byte {
	t.Helper()
	var buf bytes.Buffer
	must.NoError(t, write(&buf))
	return buf.Bytes()
}

// discover returns the topology of a fixture machine.
func discover(t testing.TB, machine string) *topology.Topology {
	t.Helper()
	m, err := fixture.Load(machine)
	must.NoError(t, err)
	return discoverMachine(t, m)
}

func discoverMachine(t testing.TB, m *fixture.Machine) *topology.Topology {
	t.Helper()
	sys := m.FS(t)
	snap, err := rdma.Discover(sys)
	must.NoError(t, err)
	return topology.Discover(sys, snap)
}
