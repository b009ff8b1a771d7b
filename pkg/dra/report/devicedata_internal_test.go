package report

import (
	"encoding/json"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestDeviceDataIsCanonical: what the driver writes stays as it is when another driver applies its own. Server-side
// apply would be refused for that one otherwise.
func TestDeviceDataIsCanonical(t *testing.T) {
	hca := HCAData{
		Name: "pci-0000-1a-00-0", IBDev: "mlx5_0", NodeGUID: "a088:c203:0025:1000",
		Ports: []PortData{{
			Number: 1, LinkLayer: "Ethernet", Netdev: "ens1f0np0",
			GIDs: []GIDData{{GID: "10.1.0.10", Type: "RoCE v2", Netdev: "ens1f0np0"}},
		}},
	}
	written, err := json.Marshal(DeviceData{HCAs: []HCAData{hca}})
	must.NoError(t, err)
	var value any
	must.NoError(t, json.Unmarshal(written, &value))
	again, err := json.Marshal(value)
	must.NoError(t, err)
	test.Eq(t, string(again), string(written), test.Sprint("encoded again"))
}
