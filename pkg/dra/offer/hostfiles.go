package offer

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/deviceinfo"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nodefeature"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
)

// writeDeviceInfo writes the files that describe the devices to CNI plugins. It must run before the slices are
// published, so that no pod starts without them. Without a file, CNI plugins work but report fewer details.
func (o *Offer) writeDeviceInfo(ctx context.Context, decided *Decision) {
	if o.cfg.DeviceInfoDir == "" {
		return
	}
	if err := o.deviceInfo.Sync(cniDevices(decided)); err != nil {
		klog.FromContext(ctx).Error(err, "Some device information files for CNI plugins are missing")
		o.cfg.Report.Warn("DeviceInfoNotWritten", o.cfg.DeviceInfoDir, err)
	}
}

// cniDevices returns the published devices that CNI plugins can get.
func cniDevices(decided *Decision) []deviceinfo.Device {
	var out []deviceinfo.Device
	for _, one := range decided.Decisions {
		name, id := one.Offer.Attributes[resources.AttributeResourceName].StringValue, one.Offer.Attributes[resources.AttributeDeviceID].StringValue
		if one.Form == resources.FormNone || name == nil || id == nil {
			continue
		}
		out = append(out, deviceinfo.Device{ResourceName: *name, DeviceID: *id, PCIAddress: one.HCA.Identity.PCI, PFAddress: one.HCA.PF, RDMADevice: one.HCA.IBDev})
	}
	return out
}

// labelLoop keeps the feature file of the node's leaf switch as the last decision wants it, until ctx ends. When the
// driver ends, the file stays: the next driver renews it, and without one it expires.
func (o *Offer) labelLoop(ctx context.Context) {
	if o.cfg.NodeFeatureDir == "" {
		return
	}
	renew := time.NewTicker(nodefeature.Renew)
	defer renew.Stop()
	var last *string
	var faults loop.Errors
	for {
		due := last == nil
		select {
		case <-ctx.Done():
			return
		case <-renew.C:
			due = true
		case <-o.decided:
		}
		decided := o.last.Load()
		if decided == nil {
			continue
		}
		leaf := o.Policy.inForce.Load().LeafLabel(decided.Result)
		if !due && *last == leaf {
			continue
		}
		err := nodefeature.Write(o.cfg.NodeFeatureDir, leaf, o.cfg.Now())
		if faults.IsNew("label", err) {
			klog.FromContext(ctx).Error(err, "The node has no label with its leaf switch")
			o.cfg.Report.Warn("LeafLabelNotWritten", o.cfg.NodeFeatureDir, err)
		}
		if last = &leaf; err != nil {
			last = nil // the next decision tries again
		}
	}
}
