package counters_test

import (
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/counters"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
)

func ExampleReadPort() {
	m, err := fixture.Load("aws-p5")
	if err != nil {
		fmt.Println(err)
		return
	}
	p := counters.ReadPort(m.OpenFS(), "rdmap79s0", 1)
	for _, c := range p.Hardware[:3] {
		fmt.Println(c.Name, c.Value)
	}
	fmt.Println(len(p.Standard), "standard counters")
	// Output:
	// impaired_remote_conn_events 0
	// rdma_read_bytes 591499840595
	// rdma_read_resp_bytes 487433464260
	// 0 standard counters
}
