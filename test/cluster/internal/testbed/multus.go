package testbed

import (
	_ "embed"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

var (
	// NetworkAttachmentDefinitions is the resource that Multus brings along.
	//go:embed network-attachment-definitions.yaml
	NetworkAttachmentDefinitions string
	//go:embed recorder.sh
	recorder string
)

// Multus makes Multus the node's CNI plugin until the test ends. Pods get the cluster's network
// from it as before, and those that their annotations ask for. The plugins sriov and
// ib-sriov keep what they are called with (Seen).
//
// Multus releases up to 4.3.0 look for devices of claims under the name of the claim, and
// take the name of the CDI device for the device ID. What comes after them looks at the
// attributes k8s.cni.cncf.io/resourceName and deviceID of the claim's devices
// (https://github.com/k8snetworkplumbingwg/multus-cni/pull/1492). Until that is
// released, a resolver does it between kubelet and Multus.
func (b *Bed) Multus(t *testing.T) {
	t.Helper()
	dir, err := cluster.BuildMultus(t.Context(), b.options)
	must.NoError(t, err)
	b.apply(t, NetworkAttachmentDefinitions)
	b.Kubectl(t, "wait", "--for=condition=Established", "crd/network-attachment-definitions.k8s.cni.cncf.io", "--timeout="+Patience.String())
	b.Inside(t, "sh", "-euc", `
mkdir -p /opt/cni/bin
cp "$0"/* /opt/cni/bin
printf %s "$1" > /opt/cni/bin/sriov
chmod 755 /opt/cni/bin/sriov
ln -sf sriov /opt/cni/bin/ib-sriov`, dir, recorder)
	resolve(t, filepath.Join(b.options.StateDir, "kubelet/pod-resources"), func() map[string]Device { return b.Devices(t) })
	// containerd takes the first file of the directory.
	file := filepath.Join(b.options.StateDir, "config/cni/00-multus.conf")
	network := ReadFile(t, filepath.Join(filepath.Dir(file), "10-cluster.conflist"))
	conf, err := json.Marshal(map[string]any{
		"cniVersion": "1.0.0", "name": "multus", "type": "multus", "kubeconfig": b.Kubeconfig(), "binDir": "/opt/cni/bin",
		"logFile": "/run/multus.log", "logLevel": "debug", "delegates": []json.RawMessage{json.RawMessage(network)},
	})
	must.NoError(t, err)
	write(t, file, string(conf))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.Output("sh", "-c", "grep -i -e error -e fail /run/multus.log | tail -n 20"))
		}
		test.NoError(t, os.Remove(file))
	})
}

func (b *Bed) apply(t *testing.T, manifest string) {
	t.Helper()
	out, err := b.KubectlInput(t, manifest, "apply", "-f", "-")
	must.NoError(t, err, must.Sprintf("apply: %s", out))
}

// Network is what a CNI plugin was told.
type Network struct {
	Type     string
	DeviceID string
}

// Seen is what sriov or ib-sriov was told last for a pod.
func (b *Bed) Seen(t *testing.T, pod string) Network {
	t.Helper()
	var n Network
	text := b.Inside(t, "cat", "/run/cni-seen/"+pod)
	must.NoError(t, json.Unmarshal([]byte(text), &n),
		must.Sprintf("configuration of the network of pod %s\n%s", pod, text))
	return n
}

// Netdev gives a PCI function of the bundled host a real interface on the node, which is one
// end of a veth pair, and shows it where CNI plugins look. It returns its hardware address.
func (b *Bed) Netdev(t *testing.T, function, name string) (address string) {
	t.Helper()
	b.Inside(t, "sh", "-euc", `
mount -t tmpfs tmpfs /sys/bus/pci/devices
mkdir -p "/sys/bus/pci/devices/$0/net/$1" "/sys/bus/pci/devices/$0/driver"
ip link add "$1" type veth peer name multus-peer`, function, name)
	t.Cleanup(func() { b.Inside(t, "sh", "-euc", "umount /sys/bus/pci/devices; ip link delete multus-peer") })
	return strings.TrimSpace(b.Inside(t, "cat", "/sys/class/net/"+name+"/address"))
}
