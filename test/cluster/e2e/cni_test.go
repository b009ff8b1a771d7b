package e2e

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

//go:embed testdata/cni.yaml
var cni string

// TestCNI: the plugin that Multus runs for a secondary network gets the very function that
// the claim got, and the network interface of that function is in the pod.
func TestCNI(t *testing.T) {
	bed.SwitchHost(t, "roce-sriov", cni)
	const roce, infiniband = "pci-0000-3b-00-3", "pci-0000-3b-00-5"
	bed.Published(t, []string{roce, infiniband}, []string{testbed.Storage})
	address := bed.Netdev(t, "0000:3b:00.3", "ens1f0v1")
	bed.Multus(t)
	n := bed.Namespace(t)
	n.Example("cni-roce")
	n.Example("cni-infiniband")
	n.Ready("cni-roce", "cni-infiniband")
	for pod, want := range map[string]struct {
		device  string
		network testbed.Network
	}{
		"cni-roce":       {roce, testbed.Network{Type: "sriov", DeviceID: "0000:3b:00.3"}},
		"cni-infiniband": {infiniband, testbed.Network{Type: "ib-sriov", DeviceID: "0000:3b:00.5"}},
	} {
		if got := bed.Seen(t, pod); got != want.network {
			t.Errorf("for pod %s, Multus called %+v, want %+v", pod, got, want.network)
		}
		n.Expect(pod, "app", want.device)
	}
	if got := n.Sh("cni-roce", "app", "cat /sys/class/net/net1/address"); got != address {
		t.Errorf("the pod's interface net1 has the address %q, want that of the function, %s", got, address)
	}
	status := n.Kubectl("get", "pod", "cni-roce", "-o", `jsonpath={.metadata.annotations.k8s\.v1\.cni\.cncf\.io/network-status}`)
	for _, want := range []string{address, `"pci-address": "0000:3b:00.3"`, `"rdma-device": "` + bed.HostHCA(t, roce).IBDev + `"`} {
		if !strings.Contains(status, want) {
			t.Errorf("network-status lacks %s:\n%s", want, status)
		}
	}
	n.Delete("cni-roce")
	testbed.Eventually(t, "return of the interface", func() error {
		_, err := bed.Output("ip", "link", "show", "ens1f0v1")
		return err
	})
}
