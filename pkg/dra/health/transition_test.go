package health_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
)

// TestSummary: one event of many HCAs says how many they are and names them, as far as a message has room for names.
func TestSummary(t *testing.T) {
	down := func(i int, message string) health.Transition {
		return health.Transition{Device: fmt.Sprintf("pci-0000-%02x-00-0", i), IBDev: fmt.Sprintf("mlx5_%d", i),
			Condition: health.PortDown, Holds: true, Message: message}
	}
	over := down(1, "port 1 is DOWN")
	over.Holds = false
	for want, all := range map[string][]health.Transition{
		"RDMA device pci-0000-01-00-0 (mlx5_1): port 1 is DOWN": {down(1,
			"port 1 is DOWN")},
		"RDMA device pci-0000-01-00-0 (mlx5_1): over: port 1 is DOWN": {over},
		"2 RDMA devices: pci-0000-01-00-0 (mlx5_1), pci-0000-02-00-0 (mlx5_2): port 1 is DOWN": {down(1,
			"port 1 is DOWN"), down(2, "port 1 is DOWN")},
		"2 RDMA devices: pci-0000-01-00-0 (mlx5_1), pci-0000-02-00-0 (mlx5_2): the first: port 1 is DOWN": {down(1,
			"port 1 is DOWN"), down(2, "port 2 is INIT")},
	} {
		test.Eq(t, want, health.Summary(all))
	}
	var many []health.Transition
	for i := range 200 {
		many = append(many, down(i, "port 1 is DOWN: "+strings.Repeat("x", 2000)))
	}
	got := health.Summary(many)
	test.True(t, len(got) <= 1024 && strings.HasPrefix(got, "200 RDMA devices: pci-0000-00-00-0 (mlx5_0), ") &&
		strings.Contains(got, " more: port 1 is DOWN: xxx"),
		test.Sprintf("of 200 HCAs it says, in %d bytes, %q", len(got), got))
}
