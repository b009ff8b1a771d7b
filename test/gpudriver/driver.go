package main

import (
	"context"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// kind is the CDI kind of the devices of one claim.
const kind = driverName + "/claim"

// driver answers the kubelet. It keeps no state: a claim says what it was given,
// and its CDI spec is named after it.
type driver struct {
	specs cdi.Store
	fail  context.CancelCauseFunc
}

// PrepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := d.prepare(claim)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

func (d *driver) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	spec := &specs.Spec{Version: "0.3.0", Kind: kind}
	var devices []kubeletplugin.Device
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.Driver != driverName {
			continue
		}
		name := string(claim.UID) + "-" + r.Device
		variable := "GPU_" + strings.ToUpper(strings.ReplaceAll(r.Device, "-", "_")) + "=" + r.Request
		spec.Devices = append(spec.Devices, specs.Device{Name: "gpu-" + name, ContainerEdits: specs.ContainerEdits{Env: []string{variable}}})
		devices = append(devices, kubeletplugin.Device{
			Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device, CDIDeviceIDs: []string{cdi.Qualified(kind, "gpu-"+name)},
		})
	}
	if _, err := d.specs.Write(cdi.SpecName(kind, string(claim.UID)), spec, cdi.JSON); err != nil {
		return nil, fmt.Errorf("prepare claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return devices, nil
}

// UnprepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		_, results[claim.UID] = d.specs.Remove(cdi.SpecName(kind, string(claim.UID)))
	}
	return results, nil
}

// WatchHealthStatus implements kubeletplugin.DRAPlugin.
func (d *driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

// HandleError implements kubeletplugin.DRAPlugin: a restart may mend what does not
// pass by itself.
func (d *driver) HandleError(ctx context.Context, err error, msg string) {
	klog.FromContext(ctx).Error(err, msg)
	if !isRecoverable(err) {
		d.fail(fmt.Errorf("%s: %w", msg, err))
	}
}
