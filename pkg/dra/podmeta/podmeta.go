// Package podmeta writes the files in which a container reads the devices of its claims:
// the device metadata files of KEP-5304.
//
// A container has, for each request of a claim that it uses,
//
//	/var/run/kubernetes.io/dra-device-attributes/resourceclaims/CLAIM/REQUEST/rdma.dev-metadata.json
//	/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/NAME/REQUEST/rdma.dev-metadata.json
//
// The second path is for claims made from a template, with the claim's name in the pod. The file has
// the devices of the request with their attributes in the ResourceSlice. Go programs read it with
// k8s.io/dynamic-resource-allocation/devicemetadata.
//
// kubeletplugin.EnableDeviceMetadata would write the same files. But an emptied CDI directory loses its CDI
// specs, so containers that restart fail. It also syncs four times for each request, in the critical path of a
// pod's start. Here the claim's own spec has the mount. The driver restores that spec whenever it is lost, and
// derives the file like the spec (docs/adr/0017).
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
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/leaf"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// File is the metadata of one request.
type File struct {
	Name string // in the directory of the claim
	Data []byte
}

// Files returns the files of a claim, none if its plan has no metadata. HCAs that are not on
// the host have no attributes.
func Files(p *plan.Plan, snap *rdma.Snapshot, leaves *leaf.View) ([]File, error) {
	var files []File
	for _, m := range p.Metadata.Mounts(p) {
		data, err := encode(p, snap, leaves, m.Request)
		if err != nil {
			return nil, fmt.Errorf("claim %s, request %s: encode device metadata: %w", p.Claim(), m.Request, err)
		}
		files = append(files, File{Name: filepath.Base(m.HostPath), Data: data})
	}
	return files, nil
}

func encode(p *plan.Plan, snap *rdma.Snapshot, leaves *leaf.View, request string) ([]byte, error) {
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
			Driver: rdma.Domain, Pool: d.Pool, Name: d.Device, Attributes: attributes(d, snap, leaves),
		})
	}
	return json.MarshalIndent(out, "", "  ")
}

// attributes returns the attributes of a device. A group has the kernel's names of its HCAs, if there
// is room for them.
func attributes(
	d plan.Device, snap *rdma.Snapshot, leaves *leaf.View,
) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	name := devicename.Parse(d.Device)
	var ibdevs []string
	for _, hca := range d.HCAs() {
		if h := snap.Lookup(hca); h != nil {
			ibdevs = append(ibdevs, h.IBDev)
		}
	}
	if name.Group != "" {
		out := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			rdma.AttributeGroup: {StringValue: &name.Group}, rdma.AttributeShared: {BoolValue: new(true)},
		}
		if joined := strings.Join(ibdevs, ","); len(joined) <= resourceapi.DeviceAttributeMaxValueLength {
			out["ibdevs"] = resourceapi.DeviceAttribute{StringValue: &joined}
		}
		return out
	}
	h := snap.Lookup(name.HCA)
	if h == nil {
		return nil
	}
	out := resources.Attributes(h, snap.NetnsMode)
	out[rdma.AttributeShared] = resourceapi.DeviceAttribute{BoolValue: &name.Shared}
	link := leaves.First(h.Name)
	for attribute, value := range map[resourceapi.QualifiedName]string{
		rdma.AttributeLeafSwitch: link.Leaf, "leafPort": link.Link.Port, "leafFabric": link.Fabric,
	} {
		if value != "" {
			out[attribute] = resourceapi.DeviceAttribute{StringValue: &value}
		}
	}
	return out
}
