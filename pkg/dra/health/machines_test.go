package health_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestMachines: what is held of every fixture machine is what the golden file says.
func TestMachines(t *testing.T) {
	var got bytes.Buffer
	for _, name := range fixture.Names() {
		snap := rdmatest.Snapshot(t, name)
		w := watch(t)
		w.obs.Snapshot = snap
		w.look()
		w.wait(time.Hour)
		describe(&got, name, w)
	}
	golden.Bytes(t, "machines.txt", got.Bytes())
}

// describe writes what is wrong with a machine, and how many of its HCAs are well.
func describe(out *bytes.Buffer, name string, w *watched) {
	well := 0
	var ill bytes.Buffer
	hcas := slices.Clone(w.obs.Snapshot.HCAs)
	slices.SortFunc(hcas, func(a, b rdma.HCA) int { return strings.Compare(a.Name, b.Name) })
	for _, h := range hcas {
		device := h.Name
		v, ok := w.View().Verdict(device)
		if !ok {
			continue
		}
		if len(v.Faults) == 0 {
			well++
			continue
		}
		fmt.Fprintf(&ill, "  %s %s", device, v.Status())
		for _, taint := range w.View().Taints(health.Policy{Informational: true})[device] {
			fmt.Fprintf(&ill, " %s:%s", taint.Key, taint.Effect)
		}
		fmt.Fprintf(&ill, "\n    %s\n", v.Message())
	}
	fmt.Fprintf(out, "%s: %d well\n%s", name, well, &ill)
}
