// Package podmeta writes what a container can read about the devices of its claims:
// the device metadata files of KEP-5304.
//
// A container finds, for each request of a claim that it uses,
//
//	/var/run/kubernetes.io/dra-device-attributes/resourceclaims/CLAIM/REQUEST/rdma.dev-metadata.json
//	/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/NAME/REQUEST/rdma.dev-metadata.json
//
// the second for claims made from a template, by the name that they have in the pod. The
// file has the devices of the request with their attributes, as the ResourceSlice has
// them. Programs in Go read it with k8s.io/dynamic-resource-allocation/devicemetadata.
//
// kubeletplugin.EnableDeviceMetadata would write the same files. But its CDI specs are
// lost with an emptied CDI directory, and containers that restart with them; and it syncs
// four times for each request, in the critical path of a pod's start. Here the mount is
// part of the claim's own spec, which is made again whenever that is needed, and the
// file is derived as the spec is (docs/adr/0017).
package podmeta

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// File is the metadata of one request.
type File struct {
	Name string // in the directory of the claim
	Data []byte
}

// Files returns the files of a claim, none if its plan wants none. HCAs that are not on
// the host have no attributes.
func Files(p *plan.Plan, snap *rdma.Snapshot) ([]File, error) {
	var files []File
	for _, m := range p.Metadata.Mounts(p) {
		data, err := encode(p, snap, m.Request)
		if err != nil {
			return nil, fmt.Errorf("claim %s, request %s: encode device metadata: %w", p.Claim(), m.Request, err)
		}
		files = append(files, File{Name: filepath.Base(m.HostPath), Data: data})
	}
	return files, nil
}

func encode(p *plan.Plan, snap *rdma.Snapshot, request string) ([]byte, error) {
	out := v1beta1.DeviceMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "DeviceMetadata"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID, Generation: 1},
	}
	if p.Metadata.PodClaim != "" {
		out.PodClaimName = &p.Metadata.PodClaim
	}
	for _, d := range p.Devices {
		if plan.BaseRequest(d.Request) != request {
			continue
		}
		if len(out.Requests) == 0 {
			out.Requests = []v1beta1.DeviceMetadataRequest{{Name: d.Request}}
		}
		out.Requests[0].Devices = append(out.Requests[0].Devices, v1beta1.Device{
			Driver: plan.DriverName, Pool: d.Pool, Name: d.Device, Attributes: attributes(d, snap),
		})
	}
	return json.MarshalIndent(out, "", "  ")
}

// attributes describes a device. A group has the kernel's names of its HCAs, as far as
// there is room for them.
func attributes(d plan.Device, snap *rdma.Snapshot) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	name := devicename.Parse(d.Device)
	var ibdevs []string
	for _, hca := range d.HCAs() {
		if h := snap.Lookup(hca); h != nil {
			ibdevs = append(ibdevs, h.IBDev)
		}
	}
	if name.Group != "" {
		out := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"group": text(name.Group), "shared": truth(true)}
		if joined := strings.Join(ibdevs, ","); len(joined) <= resourceapi.DeviceAttributeMaxValueLength {
			out["ibdevs"] = text(joined)
		}
		return out
	}
	h := snap.Lookup(name.HCA)
	if h == nil {
		return nil
	}
	out := resources.Attributes(h, snap.NetnsMode)
	out["shared"] = truth(name.Shared)
	return out
}

func text(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }
func truth(b bool) resourceapi.DeviceAttribute  { return resourceapi.DeviceAttribute{BoolValue: &b} }
