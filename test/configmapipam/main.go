// Command configmapipam is a CNI IPAM plugin for tests, of the kind that asks an API over the network: it keeps the
// addresses of a subnet in a ConfigMap. It is not for use in clusters.
//
// Its configuration is {"type": "configmapipam", "kubeconfig": FILE, "namespace": NAME, "configMap": NAME,
// "subnet": "10.78.0.0/16"}. The ConfigMap must exist. Its keys are addresses, and its values the owners.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
)

// patience is how long all requests of one call may take, less than the driver's ten seconds.
const patience = 5 * time.Second

func main() {
	skel.PluginMainFuncs(skel.CNIFuncs{
		Add:   func(args *skel.CmdArgs) error { return call(args, add) },
		Del:   func(args *skel.CmdArgs) error { return call(args, remove) },
		Check: func(*skel.CmdArgs) error { return nil },
	}, version.All, "configmapipam: addresses in a ConfigMap, for tests")
}

type configuration struct {
	CNIVersion string `json:"cniVersion"`
	IPAM       struct {
		Kubeconfig string       `json:"kubeconfig"`
		Namespace  string       `json:"namespace"`
		ConfigMap  string       `json:"configMap"`
		Subnet     netip.Prefix `json:"subnet"`
	} `json:"ipam"`

	result *types100.Result // of add
}

// call changes the addresses of the ConfigMap, again if somebody else has changed it meanwhile.
func call(args *skel.CmdArgs, change func(c *configuration, owner string, owners map[string]string) error) error {
	var c configuration
	if err := json.Unmarshal(args.StdinData, &c); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	client, err := newClient(c.IPAM.Kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	maps := client.CoreV1().ConfigMaps(c.IPAM.Namespace)
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		m, err := maps.Get(ctx, c.IPAM.ConfigMap, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if m.Data == nil {
			m.Data = map[string]string{}
		}
		if err := change(&c, args.ContainerID+"/"+args.IfName, m.Data); err != nil {
			return err
		}
		_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
		return err
	})
	if err != nil || c.result == nil {
		return err
	}
	return types.PrintResult(c.result, c.CNIVersion)
}

func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", kubeconfig, err)
	}
	config.Timeout = patience
	return kubernetes.NewForConfig(config)
}

// add gives the owner the first free address of the subnet.
func add(c *configuration, owner string, owners map[string]string) error {
	free := c.IPAM.Subnet.Addr().Next()
	for c.IPAM.Subnet.Contains(free) && owners[free.String()] != "" {
		free = free.Next()
	}
	if !c.IPAM.Subnet.Contains(free) {
		return fmt.Errorf("all addresses of %s are in use", c.IPAM.Subnet)
	}
	owners[free.String()] = owner
	c.result = &types100.Result{CNIVersion: types100.ImplementedSpecVersion, IPs: []*types100.IPConfig{{
		Address: net.IPNet{IP: free.AsSlice(), Mask: net.CIDRMask(c.IPAM.Subnet.Bits(), free.BitLen())},
	}}}
	return nil
}

// remove takes all addresses of the owner. None is no error.
func remove(_ *configuration, owner string, owners map[string]string) error {
	for address, by := range owners {
		if by == owner {
			delete(owners, address)
		}
	}
	return nil
}
