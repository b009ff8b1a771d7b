package dra_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/offer"
)

// hca0 and hca1 are the two ports of a RoCE card, and vf0 a VF of the first.
const (
	hca0 = "pci-0000-3b-00-0"
	hca1 = "pci-0000-3b-00-1"
	vf0  = "pci-0000-3b-00-4"
)

// configMap is a directory as the kubelet mounts a ConfigMap: the file is a link
// into a directory that is replaced as a whole.
type configMap struct {
	dir      string
	versions int
}

func newConfigMap(t *testing.T, lines ...string) *configMap {
	t.Helper()
	m := &configMap{dir: drivertest.TempDir(t)}
	m.set(t, lines...)
	must.NoError(t, os.Symlink("..data/config.yaml", m.file()))
	return m
}

// TestMarksOfPolicy: the rule of an HCA decides how a library marks its packets.
func TestMarksOfPolicy(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	m := newConfigMap(t, "rules:", "- {name: all, trafficClass: 106, serviceLevel: 3}")
	start(t, n, m.with(t))
	c := drivertest.WithParameters(drivertest.Claim(1, dev0), `"env": ["nccl"]`)
	n.AddClaim(c)
	prepare(t, n, c)
	spec := specSays(t, n, c)
	for _, want := range []string{`"NCCL_IB_TC=106"`, `"NCCL_IB_SL=3"`} {
		test.StrContains(t, spec, want, test.Sprint("the spec lacks"))
	}
}

func (m *configMap) file() string { return filepath.Join(m.dir, "config.yaml") }

// set replaces the content, to which it adds header and end.
func (m *configMap) set(t *testing.T, lines ...string) {
	t.Helper()
	m.versions++
	data := fmt.Sprintf("..version%d", m.versions)
	content := header + strings.Join(lines, "\n") + "\n"
	if !strings.Contains(content, "publishInterval:") {
		content += promptly
	}
	must.NoError(t, os.Mkdir(filepath.Join(m.dir, data), 0o755))
	must.NoError(t, os.WriteFile(filepath.Join(m.dir, data, "config.yaml"), []byte(content), 0o644))
	link := filepath.Join(m.dir, "..data_tmp")
	must.NoError(t, os.Symlink(data, link))
	must.NoError(t, os.Rename(link, filepath.Join(m.dir, "..data")))
}

// with starts a driver with the file.
func (m *configMap) with(t *testing.T) func(*dra.Config) {
	t.Helper()
	return func(c *dra.Config) {
		var err error
		c.Policy, err = offer.ReadPolicy(m.file())
		must.NoError(t, err)
		c.PolicyFile = m.file()
	}
}

// publish is a rule for the two ports of the card.
func publish(view string, more ...string) []string {
	return append([]string{
		"rules:", "- name: card", "  publish: " + view, "  selectors:",
		`  - cel: {expression: 'device.attributes["rdma.dev"].function == "pf"'}`,
	}, more...)
}

// waitFor waits until the devices of hca0 that are published are just those.
func waitFor(t *testing.T, n *drivertest.Node, want ...string) {
	t.Helper()
	drivertest.Eventually(t, func() error {
		if err := drivertest.Published(n); err != nil && len(want) > 0 {
			return err
		}
		var got []string
		for name := range drivertest.PublishedDevices(n) {
			if strings.HasSuffix(name, hca0) || strings.HasPrefix(name, "group-") {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("devices of %s and groups are %v, want %v", hca0, got, want)
		}
		return nil
	})
}

// TestPolicyReload: a change of the file is in force without a restart; a bad one is
// said, and changes nothing.
func TestPolicyReload(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "roce-sriov")
	m := newConfigMap(t, publish("shared", "  shares: 8")...)
	d := start(t, n, m.with(t))
	waitFor(t, n, "shared-"+hca0)
	shares := drivertest.PublishedDevices(n)["shared-"+hca0].Capacity["shares"].Value
	test.Eq(t, 8, shares.Value(), test.Sprintf("%v shares are published, want 8", &shares))
	m.set(t, publish("none")...)
	waitFor(t, n)
	m.set(t, publish("exclusive")...)
	waitFor(t, n, hca0)
	others := func() int { return n.Writes() - n.Count(drivertest.CreateEvent) - n.Count(drivertest.PatchEvent) }
	writes := others()
	m.set(t, publish("everyone")...)
	d.WaitLog("Policy not used, the one before stays in force")
	d.WaitLog("want none, exclusive, shared or both")
	must.NoError(t, os.Remove(filepath.Join(m.dir, "..data")))
	d.WaitLog("no such file or directory")
	waitFor(t, n, hca0)
	drivertest.Eventually(t, func() error { return nodeEvent(n, "RDMAConfigurationRefused", "no such file or directory") })
	test.Eq(t, writes, others(), test.Sprint("writes beside events for bad files"))
	m.set(t, publish("shared")...)
	waitFor(t, n, "shared-"+hca0)
	test.Eq(t, 2, strings.Count(d.Log.String(), "Policy not used"), test.Sprint("bad files were told"))
}

// TestStartRefused: a driver that starts with a bad file restores and unprepares claims, keeps what they hold published,
// offers and prepares nothing new, and says so; with a good file it goes on without a restart.
func TestStartRefused(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "roce-sriov")
	m := newConfigMap(t, publish("shared")...)
	d := start(t, n, m.with(t))
	held, fresh := drivertest.Share(1, nil, "shared-"+hca0), drivertest.Claim(2, hca1)
	n.AddClaim(held, fresh)
	prepare(t, n, held)
	before := readSpec(t, n, held)
	d.stop()

	m.set(t, publish("everyone")...)
	must.NoError(t, os.Remove(drivertest.SpecPath(n.CDIDir, held)))
	d = start(t, n, func(c *dra.Config) {
		_, c.PolicyRefused = offer.ReadPolicy(m.file())
		c.PolicyFile = m.file()
	})
	drivertest.Eventually(t, func() error { return draining(n, "shared-"+hca0) })
	got := drivertest.PublishedDevices(n)
	test.MapLen(t, 1, got,
		test.Sprintf("%d devices are published, want the one that a claim holds: %v", len(got), got))
	test.Eq(t, before, readSpec(t, n, held), test.Sprint("the spec is restored"))
	prepare(t, n, held)
	refused(t, n, fresh, "no valid policy since its start", "want none, exclusive, shared or both")
	d.WaitLog("nothing is offered to new claims until it is corrected")
	test.True(t, d.Status(drivertest.Context(t)).ConfigRefused,
		test.Sprint("the status does not say that the file is refused"))
	drivertest.Eventually(t, func() error {
		return nodeEvent(n, "RDMAConfigurationRefused", "offers nothing to new claims", "want none, exclusive, shared or both")
	})
	unprepare(t, n, held)
	waitFor(t, n)

	m.set(t, publish("exclusive")...)
	waitFor(t, n, hca0)
	prepare(t, n, fresh)
	drivertest.Eventually(t, func() error { return nodeEvent(n, "RDMAConfigurationUsed") })
	test.False(t, d.Status(drivertest.Context(t)).ConfigRefused, test.Sprint("the status says that the file is refused"))
}

// nodeEvent returns nil if the node has an event with a reason and all the words.
func nodeEvent(n *drivertest.Node, reason string, words ...string) error {
	for _, e := range n.Events() {
		if e.Reason == reason && e.InvolvedObject.Kind == "Node" &&
			!slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(e.Message, word) }) {
			return nil
		}
	}
	return fmt.Errorf("no event %s with all of %q", reason, words)
}

// TestHeldViewStays: an HCA stays published in the view that claims hold, until they end. The next process publishes
// this view too.
func TestHeldViewStays(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "roce-sriov")
	m := newConfigMap(t, publish("shared")...)
	d := start(t, n, m.with(t))
	shared, shared2 := drivertest.Share(1, nil, "shared-"+hca0), drivertest.Share(2, nil, "shared-"+hca0)
	n.AddClaim(shared, shared2)
	prepare(t, n, shared)
	prepare(t, n, shared2)
	waitFor(t, n, "shared-"+hca0)

	m.set(t, publish("exclusive")...)
	drivertest.Eventually(t, func() error { return draining(n, "shared-"+hca0) })
	d.stop()
	n.WipeSlices()
	start(t, n, m.with(t))
	drivertest.Eventually(t, func() error { return draining(n, "shared-"+hca0) })
	unprepare(t, n, shared)
	exclusive := drivertest.Claim(3, hca0)
	n.AddClaim(exclusive)
	refused(t, n, exclusive, "in use by claim team-a/claim-2", "as device shared-"+hca0)
	unprepare(t, n, shared2)
	waitFor(t, n, hca0)
	prepare(t, n, exclusive)

	m.set(t, publish("shared")...)
	drivertest.Eventually(t, func() error { return draining(n, hca0) })
	unprepare(t, n, exclusive)
	waitFor(t, n, "shared-"+hca0)
}

// draining returns nil when the device is published alone of its HCA's, and with a
// taint that keeps new claims away.
func draining(n *drivertest.Node, device string) error {
	devices := drivertest.PublishedDevices(n)
	for _, d := range devices {
		if strings.HasSuffix(d.Name, hca0) && d.Name != device {
			return fmt.Errorf("%s is published beside %s", d.Name, device)
		}
	}
	for _, taint := range devices[device].Taints {
		if taint.Key == "rdma.dev/draining" {
			return nil
		}
	}
	return fmt.Errorf("%s is not draining", device)
}

// TestSiteSettings: what the site adds goes to claims that are prepared from then on.
// Those prepared before keep what they have, also when they are prepared again.
func TestSiteSettings(t *testing.T) {
	n := drivertest.NewNode(t, "roce-sriov")
	m := newConfigMap(t, "memlock: 4Gi", "env: {NCCL_DEBUG: WARN}", "mounts: [{hostPath: /opt/site}]", "ncclTopology: /etc/topo.xml")
	d := start(t, n, m.with(t))
	one, two := drivertest.Claim(1, hca0), drivertest.Claim(2, hca1)
	n.AddClaim(one, two)
	prepare(t, n, one)
	before := readSpec(t, n, one)
	for _, part := range []string{`"4294967296"`, `"NCCL_DEBUG=WARN"`, `"NCCL_TOPO_FILE=/etc/topo.xml"`, `"/opt/site"`, `"/etc/topo.xml"`} {
		test.StrContains(t, before, part, test.Sprint("spec does"))
	}
	drivertest.WaitPublished(t, n)
	m.set(t, "memlock: unlimited")
	d.WaitLog("Policy in force")
	drivertest.Eventually(t, func() error {
		prepare(t, n, two)
		if spec := readSpec(t, n, two); !strings.Contains(spec, `"unlimited"`) || strings.Contains(spec, "NCCL") {
			unprepare(t, n, two)
			return fmt.Errorf("the new file is not in force: %s", spec)
		}
		return nil
	})
	prepare(t, n, one)
	test.Eq(t, before, readSpec(t, n, one), test.Sprint("spec of a prepared claim changed from"))
	d.stop()
	must.NoError(t, os.RemoveAll(n.CDIDir))
	start(t, n, m.with(t))
	test.Eq(t, before, readSpec(t, n, one), test.Sprint("spec was restored from"))
	prepare(t, n, one)
	test.Eq(t, before, readSpec(t, n, one), test.Sprint("spec of a claim prepared again changed from"))
}

func readSpec(t *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(n.CDIDir, "rdma.dev-claim_"+string(c.UID)+".json"))
	must.NoError(t, err)
	return string(data)
}
