package dra

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/nri"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// NRIHeader is set on the driver's answers to GetInfo while the container runtime should have
// its NRI plugin and does not, with the reason.
const NRIHeader = "rdma-dev-nri-trouble"

// newNRI makes the driver's NRI plugin, nil if it is to have none.
func (d *Driver) newNRI() *nri.Plugin {
	if d.cfg.NRISocket == "" {
		return nil
	}
	return &nri.Plugin{Socket: d.cfg.NRISocket, Name: plan.DriverName, Handler: sandboxes{d}}
}

// nriLoop keeps the connection to the container runtime until ctx ends.
func (d *Driver) nriLoop(ctx context.Context) {
	if d.nri == nil {
		return
	}
	logger := klog.FromContext(ctx)
	d.nri.Report = func(err error) {
		if err != nil {
			logger.Error(err, "Not connected to NRI: no RDMA device follows a pod, and exec sessions have the runtime's limit of locked memory")
			d.recorder.Warn("NRIDisconnected", d.cfg.NodeName, err)
			return
		}
		logger.Info("Connected to NRI", "socket", d.cfg.NRISocket)
		d.recorder.Note("NRIConnected", d.cfg.NodeName, "the container runtime has the driver's NRI plugin")
	}
	d.nri.Run(ctx)
}

// nriTrouble says what is not done since the runtime does not have the plugin, nil if
// it has, or is not to have it.
func (d *Driver) nriTrouble() error {
	if d.nri == nil {
		return nil
	}
	err := d.nri.Trouble()
	switch {
	case err == nil:
		return nil
	case d.cfg.Mover != nil && rdma.ReadNetnsMode(d.host.sys) == rdma.NetnsExclusive:
		return fmt.Errorf("no RDMA device follows a pod, so pods with claims do not start: %w", err)
	default:
		return fmt.Errorf("exec sessions and probes have the container runtime's limit of locked memory: %w", err)
	}
}

// nriState is what the status page says: connected or not, and nothing where there is no
// plugin.
func (d *Driver) nriState() string {
	switch {
	case d.nri == nil:
		return ""
	case d.nri.Connected():
		return "connected"
	default:
		return "not connected"
	}
}
