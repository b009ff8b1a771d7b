package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/genl"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmacgroup"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/explain"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/offer"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/pods"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var explainCodes = exitcode.List{
	exitcode.OK: "done", exitcode.Failed: "failed", exitcode.Usage: exitcode.BadUsage + ", or a bad configuration file",
	exitUnapplied: "shown, but rails or ipam of the file do not apply on this host",
}

func newExplain(env func(string) string) *cobra.Command {
	var config, hostRoot, output, nriSocket string
	var self nodeFlags
	var moveDevices bool
	var interfaces interfaceFlags
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Show how the HCAs of this host are published, and why",
		Long: `explain applies a configuration file to the HCAs of this host. For each HCA it shows
the matching rule, the published devices, and why the HCA is not published, or not as
the rule says. It needs no cluster and changes nothing: use it to test a file before
you install it. Only for the node's blocks of addresses it asks the API server, if it
knows the node's name.

It assumes a node without claims, and an API server with all features. While a claim
uses an HCA, the HCA keeps the form in which it was published (exclusive or shared).
The driver's log reports this, and features that the API server lacks.

` + explainCodes.Help(),
		Example: `  dra-driver explain --config new.yaml
  kubectl -n dra-driver-rdma exec -i daemonset/dra-driver-rdma -- \
      dra-driver explain --config - --host-root /host < new.yaml
  kubectl -n dra-driver-rdma exec daemonset/dra-driver-rdma -- \
      dra-driver explain --config /etc/rdma.dev/config.yaml --host-root /host`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(explain.Formats, output) {
				return cli.Usagef("--output %q: want one of %v", output, explain.Formats)
			}
			c, err := readPolicy(config, func(file string) (*policy.Config, error) {
				return offer.ReadPolicyArgument(file, cmd.InOrStdin())
			})
			if err != nil {
				return err
			}
			scanner := rdma.NewScanner(sysfs.DirFS(filepath.Join(hostRoot, "sys")))
			scanner.Software = node.Software(&genl.Kernel{})
			snap, err := scanner.Discover()
			if err != nil {
				return fmt.Errorf("discover the RDMA devices below %q: %w", hostRoot, err)
			}
			report, err := explainHost(hostRoot, snap, c, moveDevices, interfaces)
			if err != nil {
				return err
			}
			if len(c.Pools()) > 0 && self.name != "" {
				own, err := self.read(cmd.Context())
				report.AddBlocks(c, own, err)
			}
			report.GIDIndexes = notTold(nriSocket)
			if err := report.Write(cmd.OutOrStdout(), output); err != nil {
				return err
			}
			return unapplied("host", report.Unapplied)
		},
	}
	f := cmd.Flags()
	f.StringVar(&config, "config", "", "configuration `FILE` of the site, - for standard input "+
		"(default none: each HCA for one claim at a time)")
	f.StringVar(&hostRoot, "host-root", "/", "`DIRECTORY` that holds the host's sys")
	f.BoolVar(&moveDevices, "move-devices", false, "show what a driver with this flag offers in exclusive RDMA network "+
		"namespace mode; needs the host's network, CAP_NET_ADMIN and CAP_SYS_ADMIN")
	self.register(f, env)
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

// explainHost explains what a configuration makes of a host. It asks no cluster.
func explainHost(
	hostRoot string, snap *rdma.Snapshot, c *policy.Config, moveDevices bool, interfaces interfaceFlags,
) (*explain.Report, error) {
	var cfg dra.Config
	if err := interfaces.configure(&cfg); err != nil {
		return nil, err
	}
	mover, err := newMover(moveDevices)
	if err != nil {
		return nil, err
	}
	report := explain.New(snap, c, rdmacgroup.Enforced(hostRoot), node.FixedHCAs(mover, snap))
	if cfg.Interfaces != nil {
		report.AddInterfaces(snap, func(h *rdma.HCA, mode string, vlan int) (netdev, on string, err error) {
			return pods.UsableInterface(cfg.Interfaces, h, mode, vlan)
		}, cfg.Interfaces.LowMTU)
		if err := cfg.Interfaces.GuardsIPv6(); err != nil {
			report.IPv6 = fmt.Sprintf("the driver cannot set accept_ra=0 for the interfaces of pods (%v), "+
				"so routers on the fabric can give pods addresses and routes", err)
		}
	}
	return report, nil
}
