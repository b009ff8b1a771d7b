package traffic

import (
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

func TestStand(t *testing.T) {
	hcas := machines(4, 1, true)
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	at := func(hours int) time.Time { return now.Add(-time.Duration(hours) * time.Hour) }
	pci0 := model.HCA{Name: "pci-0", Node: "another"} // whoever writes a record can write any node
	records := map[string]*Record{
		"n0": {Node: "n0", Time: at(3), HCAs: []Verdict{{HCA: pci0, State: Good, Alone: 390}}},
		"n1": {Node: "n1", Time: at(72), Driver: "v1\x1b", HCAs: []Verdict{
			{HCA: pci0, State: Slow, Alone: 39}, {HCA: model.HCA{Name: "gone"}, State: Slow}}},
		"n2": {Node: "n2", Time: at(1), HCAs: []Verdict{{HCA: pci0, State: NotMeasured}}},
		"n9": {Node: "n9", Time: at(900), HCAs: []Verdict{{HCA: pci0, State: Slow}}},
	}
	s := Stand(hcas, records)
	var b strings.Builder
	must.NoError(t, s.WriteText(&b, now))
	want := "Tests by traffic: 1 good, 1 failed, 2 untested (n2/mlx5_0, n3/mlx5_0); results are 3h to 3d old\n" +
		"FAILED        RESULT   ALONE    ALL-RAILS   AGE   DRIVER\n" +
		"n1/pci-0 ()   slow     39Gb/s   -           3d    v1\\x1b\n"
	test.Eq(t, want, b.String(), test.Sprintf("\n%s", &b))
}
