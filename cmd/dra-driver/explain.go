package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/genl"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmacgroup"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/offer"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/pods"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var explainCodes = exitcode.List{
	exitcode.OK: "done", exitcode.Failed: "failed", exitcode.Usage: exitcode.BadUsage + ", or a bad policy",
	exitUnapplied: "shown, but rails or ipam of the file do not apply on this host",
}

func newExplain(env func(string) string) *cobra.Command {
	var config, hostRoot, output, nriSocket string
	var self nodeFlags
	var driver dra.Config
	var moveDevices bool
	var interfaces interfaceFlags
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Show how the HCAs of this host are published, and why",
		Long: `explain applies a policy to the HCAs of this host. For each HCA it shows
the matching rule, the published devices, and why the HCA is not published, or not as
the rule says. It needs no cluster and changes nothing: use it to test a file before
you install it. Only for the node's blocks of addresses it asks the API server, if it
knows the node's name.

It assumes a node without claims. While a claim uses an HCA, the HCA keeps the form in
which it was published (exclusive or shared). In the pod of a running driver, it asks the
driver which features the API server lacks. It assumes all others, and names those that
the file needs and nobody has seen. It also names rules and fields of selectors that
match no HCA.

` + explainCodes.Help(),
		Example: `  dra-driver explain --config new.yaml
  kubectl -n dra-driver-rdma exec -i daemonset/dra-driver-rdma -- \
      dra-driver explain --config - --host-root /host < new.yaml
  kubectl -n dra-driver-rdma exec daemonset/dra-driver-rdma -- \
      dra-driver explain --config /etc/rdma.dev/config.yaml --host-root /host`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(nodestatus.Formats, output) {
				return cli.Usagef("--output %q: want one of %v", output, nodestatus.Formats)
			}
			c, err := readPolicy(config, func(file string) (*policy.Config, error) {
				return offer.ReadPolicyArgument(file, cmd.InOrStdin())
			})
			if err != nil {
				return err
			}
			host, err := discover(hostRoot)
			if err != nil {
				return err
			}
			known, unknown := featuresOf(cmd.Context(), &driver)
			status, err := explainHost(hostRoot, host, c, known, moveDevices, interfaces)
			if err != nil {
				return err
			}
			if unknown != nil {
				status.Notes = append(status.Notes, unknown.Error())
			}
			if len(c.Pools()) > 0 && self.name != "" {
				own, err := self.read(cmd.Context())
				addBlocks(status, c, own, err)
			}
			if reason := notTold(nriSocket); reason != "" {
				status.Lacks = append(status.Lacks, reason)
			}
			if err := status.Write(cmd.OutOrStdout(), output); err != nil {
				return err
			}
			return unapplied("host", status.Unapplied)
		},
	}
	f := cmd.Flags()
	f.StringVar(&config, "config", "", "policy `FILE`, - for standard input "+
		"(default none: each HCA for one claim at a time)")
	f.StringVar(&hostRoot, "host-root", "/", "`DIRECTORY` that holds the host's sys")
	f.BoolVar(&moveDevices, "move-devices", false, "show what a driver with this flag offers in exclusive RDMA network "+
		"namespace mode; needs the host's network, CAP_NET_ADMIN and CAP_SYS_ADMIN")
	self.register(f, env)
	f.StringVar(&driver.KubeletDir, "kubelet-dir", "/var/lib/kubelet", "root `DIRECTORY` of the kubelet")
	f.StringVar((*string)(&driver.PodUID), "pod-uid", env("POD_UID"), "`UID` of the driver's pod to ask "+
		"(default $POD_UID)")
	interfaces.registerHost(f, env, "show which network interface claims can have of each HCA, as a driver with this "+
		"flag; needs the host's network and CAP_SYS_ADMIN")
	f.StringVar(&nriSocket, "nri-socket", "", "`SOCKET`: say what containers are told by a driver with this flag "+
		"(default none)")
	f.StringVarP(&output, "output", "o", "table", "`FORMAT`: table, json or yaml")
	return cmd
}

// notTold returns why containers are not told GID indexes, "" if they are.
func notTold(nriSocket string) string {
	const consequence = "containers are not told the GID indexes of their interfaces: they have neither " +
		"RDMA_GID_INDEX_<HCA> nor the variables of the words with gid-index in env"
	if nriSocket == "" {
		return "the driver has no --nri-socket, so " + consequence
	}
	if _, err := os.Stat(nriSocket); err != nil {
		return fmt.Sprintf("the container runtime has no NRI at --nri-socket %q (%v), so %s", nriSocket, err, consequence)
	}
	return ""
}

// featuresOf returns what the driver of this pod knows of its API server, nothing outside of a pod.
func featuresOf(ctx context.Context, cfg *dra.Config) (policy.Features, error) {
	if cfg.PodUID == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	status, err := readPage(ctx, statusSocket(cfg), "the features of the API server")
	if err != nil {
		return nil, err
	}
	return status.Features, nil
}

// discover reads the HCAs of a host.
func discover(hostRoot string) (*node.Host, error) {
	sys := sysfs.Below(hostRoot)
	scanner := rdma.NewScanner(sys)
	scanner.Software = node.Software(&genl.Kernel{})
	snap, err := scanner.Discover()
	if err != nil {
		return nil, fmt.Errorf("discover the RDMA devices below %q: %w", hostRoot, err)
	}
	return &node.Host{Snapshot: snap, Sys: sys}, nil
}

// explainHost describes what a driver without claims makes of a host by a configuration. It asks no cluster: known is
// what the driver knows of the API server.
func explainHost(
	hostRoot string, host *node.Host, c *policy.Config, known policy.Features, moveDevices bool, interfaces interfaceFlags,
) (*nodestatus.Status, error) {
	var cfg dra.Config
	if err := interfaces.configure(&cfg); err != nil {
		return nil, err
	}
	mover, err := newMover(moveDevices)
	if err != nil {
		return nil, err
	}
	in := report.Planned(host, c, known, node.FixedHCAs(mover, host.Snapshot), time.Now())
	if err := rdmacgroup.Enforced(hostRoot); err != nil {
		in.Lacks = append(in.Lacks, err)
	}
	if cfg.Interfaces != nil {
		if err := cfg.Interfaces.GuardsIPv6(); err != nil {
			in.Lacks = append(in.Lacks, fmt.Errorf("the driver cannot set accept_ra=0 for the interfaces of pods (%w), "+
				"so routers on the fabric can give pods addresses and routes", err))
		}
	}
	status := report.Status(in)
	if cfg.Interfaces != nil {
		status.AddInterfaces(host.Snapshot, func(h *rdma.HCA, mode string, vlan int) (netdev, on string, err error) {
			return pods.UsableInterface(cfg.Interfaces, h, mode, vlan)
		}, cfg.Interfaces.LowMTU)
	}
	return status, nil
}

// addBlocks adds the blocks of a node to the entries of ipam. An entry that HCAs use and that has no block is
// unapplied. read is the error of reading the node, nil for none.
func addBlocks(s *nodestatus.Status, c *policy.Config, own blocks.Node, read error) {
	for i := range s.IPAM {
		one, pool := &s.IPAM[i], c.Pools()[s.IPAM[i].IPAM]
		if pool == nil {
			continue
		}
		block, err := blocks.Block{}, read
		if err == nil {
			block, err = pool.Of(own)
		}
		if err == nil {
			one.Block, one.Size, one.Problem = block.Block.String(), block.Size(), ""
			continue
		}
		one.Problem = err.Error()
		if len(one.HCAs) > 0 {
			s.Unapplied = append(s.Unapplied, "ipam "+one.IPAM+": "+one.Problem)
		}
	}
}
