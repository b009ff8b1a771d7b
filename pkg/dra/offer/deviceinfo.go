package offer

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/deviceinfo"
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
