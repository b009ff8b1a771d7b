package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// ipamValues has one HCA in shares, whose interfaces get their addresses of a plugin that asks the API server. The
// cluster's runtime may not raise the limit of locked memory.
const ipamValues = `
lockedMemory: {limit: inherit}
network: {enabled: true}
hostPaths: {cniBin: %[1]s/bin}
config:
  ipam:
    roce:
      type: configmapipam
      kubeconfig: %[1]s/bin/kubeconfig
      namespace: %[2]s
      configMap: addresses
      subnet: 10.78.0.0/16
  rules:
  - name: shared
    publish: shared
    selectors: [{cel: {expression: 'device.attributes["rdma.dev"].ibdev == "mlx5_0"'}}]
  - {name: rest, publish: none}
`

// TestIPAMByAPI: pods get the addresses of their interfaces from a CNI plugin. The plugin asks the real API server,
// with rights of its own. While it cannot reach the server, a new pod waits and says why. The address of a pod that
// ends stays until the plugin has taken it back. None is lost.
func TestIPAMByAPI(t *testing.T) {
	n := bed.Namespace(t)
	dir := t.TempDir()
	p := &apiPlugin{t: t, n: n, file: filepath.Join(dir, "bin/kubeconfig")}
	err := bed.Checkout.Build(t.Context(), "./test/configmapipam", filepath.Join(dir, "bin/configmapipam"))
	must.NoError(t, err)
	p.grant()
	bed.Inside(t, "sh", "-euc", `
ip link add ens1f0np0 type veth peer name ipam-peer
ip link set ens1f0np0 mtu 4200 up
ip link set ipam-peer mtu 4200 up`)
	t.Cleanup(func() { bed.Inside(t, "ip", "link", "delete", "ipam-peer") })
	bed.SwitchHost(t, "roce-sriov", fmt.Sprintf(ipamValues, dir, n.Name))
	bed.Published(t, []string{"shared-pci-0000-3b-00-0"}, nil)

	p.reachable(false)
	n.Example("macvlan")
	const says = `get an address of ipam "roce" by CNI plugin`
	n.Event("macvlan-a", says, "connection refused")
	n.Event("macvlan-b", says, "connection refused")
	p.reachable(true)
	n.Ready("macvlan-a", "macvlan-b")
	has := map[string]string{}
	for _, pod := range []string{"macvlan-a", "macvlan-b"} {
		fields := strings.Fields(n.Sh(pod, "app", "ip -o -4 addr show dev rdma0"))
		address, ok := strings.CutSuffix(fields[3], "/16")
		if owner := p.owners()[address]; !ok || !strings.Contains(owner, n.ClaimOf(pod).Metadata.UID) {
			t.Errorf("%s has %v, and the API server knows %v", pod, fields, p.owners())
		}
		has[address] = pod
	}
	if known := slices.Sorted(maps.Keys(p.owners())); len(has) != 2 || len(known) != 2 {
		t.Errorf("addresses %v, and the API server knows %v", has, known)
	}

	n.Delete("macvlan-a")
	p.wait(1)
	p.reachable(false)
	n.Delete("macvlan-b")
	testbed.Eventually(t, "the driver's word of the address", func() error {
		if bed.Said("Address of a pod is not given back yet", "connection refused") == 0 {
			return fmt.Errorf("it says nothing")
		}
		return nil
	})
	p.wait(1)
	p.reachable(true)
	p.wait(0)
}

// apiPlugin is a plugin that asks the API server.
type apiPlugin struct {
	t    *testing.T
	n    *testbed.Namespace
	file string // its kubeconfig

	config *clientcmdapi.Config
	server string
}

// grant gives the plugin a service account, which may read and write the addresses and nothing else.
func (p *apiPlugin) grant() {
	p.t.Helper()
	p.n.Kubectl("create", "configmap", "addresses")
	p.n.Kubectl("create", "serviceaccount", "ipam")
	p.n.Kubectl("create", "role", "ipam", "--verb=get,update", "--resource=configmaps", "--resource-name=addresses")
	p.n.Kubectl("create", "rolebinding", "ipam", "--role=ipam", "--serviceaccount="+p.n.Name+":ipam")
	token := strings.TrimSpace(p.n.Kubectl("create", "token", "ipam", "--duration=1h"))
	config, err := clientcmd.LoadFromFile(bed.Kubeconfig())
	must.NoError(p.t, err)
	must.NoError(p.t, clientcmdapi.MinifyConfig(config))
	must.NoError(p.t, clientcmdapi.FlattenConfig(config))
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	p.config = config
	p.server = p.cluster().Server
	p.reachable(true)
}

func (p *apiPlugin) cluster() *clientcmdapi.Cluster {
	for _, c := range p.config.Clusters {
		return c
	}
	p.t.Fatal("the kubeconfig has no cluster")
	return nil
}

// reachable decides whether the plugin finds the API server. Otherwise nobody listens where it asks.
func (p *apiPlugin) reachable(yes bool) {
	p.t.Helper()
	p.cluster().Server = "https://127.0.0.1:1"
	if yes {
		p.cluster().Server = p.server
	}
	must.NoError(p.t, clientcmd.WriteToFile(*p.config, p.file))
}

// owners returns the owners of addresses by what the API server has.
func (p *apiPlugin) owners() map[string]string {
	p.t.Helper()
	owners := map[string]string{}
	for line := range strings.Lines(p.n.Kubectl("get", "configmap", "addresses", "-o",
		`go-template={{range $a, $o := .data}}{{$a}} {{$o}}{{"\n"}}{{end}}`)) {
		address, owner, _ := strings.Cut(strings.TrimSpace(line), " ")
		owners[address] = owner
	}
	return owners
}

// wait waits until so many addresses have an owner. The driver asks a plugin again each minute.
func (p *apiPlugin) wait(want int) {
	p.t.Helper()
	owners := p.owners()
	for deadline := time.Now().Add(3 * time.Minute); len(owners) != want; owners = p.owners() {
		if time.Now().After(deadline) {
			p.t.Fatalf("owners %v, want %d", owners, want)
		}
		time.Sleep(time.Second)
	}
}
