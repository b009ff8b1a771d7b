package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// probe calls a running driver over the sockets that the kubelet uses.
type probe struct {
	cfg     dra.Config
	ready   bool
	ofHCAs  bool
	timeout time.Duration
	out     io.Writer
}

var probeCodes = exitcode.List{
	exitcode.OK:     "it works; with --health: no HCA is sick",
	exitcode.Failed: "it does not, or not yet; with --health: an HCA is sick",
	exitcode.Usage:  exitcode.BadUsage, exitUnknown: "with --health: not known, for example because no driver answers",
}

func newProbe(env func(string) string) *cobra.Command {
	p := &probe{}
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Ask the driver of this pod whether it works",
		Long: `probe calls the driver through the two sockets that the kubelet uses, for liveness and
readiness probes. With --ready it also fails until the kubelet has registered the driver and
the API server has the node's devices, and again while it lacks them for 30 s.

It prints the driver's problems with the API server and with the container runtime's NRI.
These do not fail the probe, because a restart would not help.

With --health it asks for the health of the node's HCAs instead, and prints it as JSON, for
systems that repair nodes. Outside of the driver's pod, set --pod-uid= to ask any driver of
the node.

` + probeCodes.Help(),
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.out = cmd.OutOrStdout()
			ctx, cancel := context.WithTimeout(cmd.Context(), p.timeout)
			defer cancel()
			if p.ofHCAs {
				return p.health(ctx)
			}
			return errors.Join(p.registrar(ctx), p.plugin(ctx))
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.cfg.KubeletDir, "kubelet-dir", "/var/lib/kubelet", "root `DIRECTORY` of the kubelet")
	f.StringVar((*string)(&p.cfg.PodUID), "pod-uid", env("POD_UID"), "`UID` of the driver's pod (default $POD_UID)")
	f.BoolVar(&p.ready, "ready", false, "also require that the kubelet has registered the driver")
	f.BoolVar(&p.ofHCAs, "health", false, "print the health of the node's HCAs as JSON")
	f.DurationVar(&p.timeout, "timeout", 5*time.Second, "`TIME` for all calls")
	return cmd
}

// registrar asks the driver for its name, as the kubelet does when it registers it.
func (p *probe) registrar(ctx context.Context) error {
	dir := p.cfg.RegistrarDir()
	path := filepath.Join(dir, rdma.Domain+"-reg.sock")
	if p.cfg.PodUID != "" {
		path = filepath.Join(dir, kubeletplugin.RollingUpdateRegistrarSocketFile(dir, rdma.Domain, p.cfg.PodUID))
	}
	return call(path, func(conn *grpc.ClientConn) error {
		var header metadata.MD
		info, err := registerapi.NewRegistrationClient(conn).GetInfo(ctx, &registerapi.InfoRequest{}, grpc.Header(&header))
		if err != nil {
			return err
		}
		if info.Name != rdma.Domain {
			return fmt.Errorf("driver %s answers, not %s", info.Name, rdma.Domain)
		}
		for _, trouble := range header.Get(dra.TroubleHeader) {
			text.Fprintf(p.out, "trouble with the API server: %s\n", trouble)
		}
		for _, trouble := range header.Get(dra.NRIHeader) {
			text.Fprintf(p.out, "trouble with NRI: %s\n", trouble)
		}
		if p.ready && len(header.Get(dra.RegisteredHeader)) == 0 {
			return errors.New("the kubelet has not registered the driver yet")
		}
		if unpublished := header.Get(dra.UnpublishedHeader); p.ready && len(unpublished) > 0 {
			return errors.New(unpublished[0])
		}
		return nil
	})
}

// plugin calls the driver to prepare no claims.
func (p *probe) plugin(ctx context.Context) error {
	name := "dra.sock"
	if p.cfg.PodUID != "" {
		name = "dra-" + string(p.cfg.PodUID) + ".sock"
	}
	return call(filepath.Join(p.cfg.PluginDir(), name), func(conn *grpc.ClientConn) error {
		_, err := drapb.NewDRAPluginClient(conn).NodePrepareResources(ctx, &drapb.NodePrepareResourcesRequest{})
		return err
	})
}

func call(socket string, f func(*grpc.ClientConn) error) error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		err = errors.Join(f(conn), conn.Close())
	}
	if err != nil {
		return fmt.Errorf("probe %q: %w", socket, err)
	}
	return nil
}
