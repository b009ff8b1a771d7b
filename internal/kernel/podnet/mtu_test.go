package podnet_test

import (
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
)

// TestRDMAMTU has the MTUs of Ethernet that people use, and the bounds of each RDMA MTU.
func TestRDMAMTU(t *testing.T) {
	for mtu, want := range map[int]int{
		68: 0, 351: 0, 352: 256, 1280: 1024, 1500: 1024, 2143: 1024, 2144: 2048, 4096: 2048,
		4191: 2048, 4192: 4096, 4200: 4096, 9000: 4096, 65535: 4096,
	} {
		test.Eq(t, want, podnet.RDMAMTU(mtu), test.Sprintf("MTU %d: RDMA MTU", mtu))
		if want != 0 && podnet.RDMAMTU(podnet.MTUNeeded(want)) != want {
			t.Errorf("MTU %d does not give RDMA MTU %d", podnet.MTUNeeded(want), want)
		}
	}
}
