package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// planned describes a fixture machine as a driver without claims would, with a policy.
func planned(t testing.TB, machine, file string) *nodestatus.Status {
	t.Helper()
	sys, snap := rdmatest.Sysfs(t, machine)
	s := report.Status(report.Planned(&node.Host{Snapshot: snap, Sys: sys}, config(t, file), nil, nil, time.Unix(0, 0)))
	s.Topology = nil // its tests are its own
	return s
}

func config(t testing.TB, name string) *policy.Config {
	t.Helper()
	if name == "" {
		return policy.Default()
	}
	data, err := os.ReadFile("testdata/planned/" + name + ".yaml")
	must.NoError(t, err)
	c, err := policy.Parse(data)
	must.NoError(t, err)
	return c
}

func write(t testing.TB, r *nodestatus.Status, format string) []byte {
	t.Helper()
	var out bytes.Buffer
	must.NoError(t, r.Write(&out, format))
	return out.Bytes()
}

// TestTables has each fixture machine with each file: which rule matched, what is
// published, and why not.
func TestTables(t *testing.T) {
	for _, machine := range fixture.Names() {
		for _, file := range []string{"", "sharing", "partitioning"} {
			name := strings.TrimSuffix(machine+"-"+file, "-")
			t.Run(name, func(t *testing.T) {
				golden.Bytes(t, "planned/"+name+".txt", write(t, planned(t, machine, file), "table"))
			})
		}
	}
}

// TestFormats: JSON and YAML have the same, and more than the table.
func TestFormats(t *testing.T) {
	r := planned(t, "roce-sriov", "partitioning")
	data := write(t, r, "json")
	golden.Bytes(t, "planned/roce-sriov-partitioning.json", data)
	var fromJSON, fromYAML nodestatus.Status
	must.NoError(t, json.Unmarshal(data, &fromJSON))
	must.NoError(t, yaml.UnmarshalStrict(write(t, r, "yaml"), &fromYAML))
	for format, got := range map[string]nodestatus.Status{"json": fromJSON, "yaml": fromYAML} {
		test.Eq(t, *r, got, test.Sprintf("%s (-report +read again)", format))
	}
	test.ErrorContains(t, r.Write(&bytes.Buffer{}, "xml"), `unknown format "xml", want one of [table json yaml]`,
		test.Sprint("unknown format"))
}

// TestMarks: the report has the marks of packets of each HCA, and says why containers are not told GID indexes.
func TestMarks(t *testing.T) {
	r := planned(t, "roce-sriov", "marks")
	r.Lacks = []string{"the driver has no --nri-socket"}
	golden.Bytes(t, "planned/marks.txt", write(t, r, "table"))
	golden.Bytes(t, "planned/marks.json", write(t, r, "json"))
}

// TestInterfaces: the report says which interface claims can have of each published device, in which mode, and why not.
// Only pkg/dra asks the host about an interface. This test makes up the answers for some HCAs.
func TestInterfaces(t *testing.T) {
	snap := rdmatest.Snapshot(t, "roce-sriov")
	for _, file := range []string{"", "sharing", "cni", "vlan"} {
		r := planned(t, "roce-sriov", file)
		r.AddInterfaces(snap, func(h *rdma.HCA, mode string, vlan int) (netdev, on string, err error) {
			netdev = h.Ports[0].Netdev
			switch {
			case h.IBDev == "mlx5_4":
				return "", "", errors.New("it has no network interface on the host now")
			case h.IBDev == "mlx5_1":
				return netdev, "", errors.New("the host uses it: it is a part of br0")
			case h.IBDev == "mlx5_0" && mode == podnet.Move:
				return netdev, "", errors.New("the host uses it: it has the default route")
			case h.IBDev == "mlx5_3" && mode == podnet.Move:
				return netdev, "", errors.New("the host uses it: it is a part of bond0")
			case vlan != 0:
				return netdev, fmt.Sprintf("%s, VLAN %d", netdev, vlan), nil
			case h.IBDev == "mlx5_3":
				return netdev, "bond0", nil
			}
			return netdev, netdev, nil
		}, func(netdev, parent string) string {
			if parent != "bond0" {
				return ""
			}
			return podnet.LowMTU(parent, 1500, 9000)
		})
		name := strings.TrimSuffix("planned/interfaces-"+file, "-")
		golden.Bytes(t, name+".txt", write(t, r, "table"))
		golden.Bytes(t, name+".json", write(t, r, "json"))
	}
}

// TestEveryHCAIsExplained: an HCA is published, or there is a reason why not.
func TestEveryHCAIsExplained(t *testing.T) {
	for _, machine := range fixture.Names() {
		for _, file := range []string{"", "sharing", "partitioning"} {
			snap := rdmatest.Snapshot(t, machine)
			r := planned(t, machine, file)
			test.Eq(t, len(snap.HCAs), len(r.HCAs), test.Sprintf("%s, %q", machine, file))
			for _, h := range r.HCAs {
				test.True(t, (len(h.Devices) == 0) == (h.Published == "none") &&
					(len(h.Devices) != 0 || h.Reason != ""),
					test.Sprintf("%s, %q: %s is published as %v (%s), with reason %q", machine, file, h.IBDev,
						h.Devices, h.Published, h.Reason))
			}
			for _, g := range r.Groups {
				test.True(t, g.Published == (len(g.Devices) == 1) && (g.Published || g.Reason != ""),
					test.Sprintf("%s, %q: group %s is published as %v, with reason %q", machine, file, g.Name,
						g.Devices, g.Reason))
			}
		}
	}
}
