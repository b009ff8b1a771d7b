package main

import (
	"net/netip"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// interfaceFlags are the flags for attaching network interfaces to pods.
type interfaceFlags struct {
	attach  bool
	cniBin  string
	nodeIPs string
}

func (i *interfaceFlags) register(f *pflag.FlagSet, env func(string) string) {
	i.registerHost(f, env, "attach the network interfaces of HCAs to pods whose claims ask for it; needs --nri-socket, "+
		"the host's network, CAP_NET_ADMIN and CAP_SYS_ADMIN")
	f.StringVar(&i.cniBin, "cni-bin-dir", "", "`DIRECTORY` with the CNI plugins that give these interfaces addresses, "+
		"such as /opt/cni/bin (default none; entries of ipam that divide a subnet among nodes need none)")
}

// registerHost adds the flags that determine which interfaces of the host can be attached.
func (i *interfaceFlags) registerHost(f *pflag.FlagSet, env func(string) string, attach string) {
	f.BoolVar(&i.attach, "attach-interfaces", false, attach)
	f.StringVar(&i.nodeIPs, "node-ips", env("NODE_IPS"),
		"`ADDRESSES` of this node, separated by commas: their interfaces stay on the host (default $NODE_IPS)")
}

// configure opens the host's interfaces, if the flags ask for that.
func (i *interfaceFlags) configure(cfg *dra.Config) error {
	if !i.attach {
		return nil
	}
	var nodeIPs []netip.Addr
	for s := range strings.SplitSeq(i.nodeIPs, ",") {
		if s == "" {
			continue
		}
		ip, err := netip.ParseAddr(s)
		if err != nil {
			return cli.Usagef("--node-ips %q: %w", i.nodeIPs, err)
		}
		nodeIPs = append(nodeIPs, ip.Unmap())
	}
	host, err := podnet.NewHost(rdma.Domain, nodeIPs)
	if err != nil {
		return err
	}
	cfg.Interfaces, cfg.IPAM = host, &podnet.IPAM{Owner: rdma.Domain, Dir: i.cniBin}
	return nil
}
