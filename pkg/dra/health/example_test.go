package health_test

import (
	"fmt"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func Example() {
	model := health.New(health.DefaultConfig())
	h := rdma.HCA{Name: "pci-0000-3b-00-0", IBDev: "mlx5_0", Uverbs: &rdma.Node{},
		Ports: []rdma.Port{{Number: 1, State: rdma.PortActive}}}
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	look := func() {
		observation := health.Observation{Snapshot: &rdma.Snapshot{HCAs: []rdma.HCA{h}}}
		for _, t := range model.Observe(observation, now) {
			fmt.Println(now.Format(time.TimeOnly), t.Reason(), t.Message)
		}
	}
	look()

	h.Ports = []rdma.Port{{Number: 1, State: rdma.PortDown, PhysState: "Disabled"}}
	look() // the kernel announced something
	now, _ = model.Next()
	look() // nothing happened since, and that is what counts

	fmt.Println(model.View().Taints(health.Policy{})[h.Name][0].Key)
	// Output:
	// 12:00:05 RDMAPortDown port 1 is DOWN (Disabled): the link is switched off on this side
	// rdma.dev/port-down
}
