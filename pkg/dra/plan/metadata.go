package plan

import (
	"path/filepath"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Metadata has the place of the files that describe the devices of a claim to containers (KEP-5304, package podmeta).
type Metadata struct {
	// Dir is the directory of the claim's files on the host.
	Dir string `json:"dir"`
	// PodClaim is the name of the claim in the pod, for a claim made from a template.
	PodClaim string `json:"podClaim,omitempty"`
}

// MetadataMount is the file of one request, and its path in containers.
type MetadataMount struct {
	Request string // without the subrequest
	cdi.Mount
	device int // index of the request's first device, which mounts the file
}

// newMetadata returns nil if the node writes no such files.
func newMetadata(claim *resourceapi.ResourceClaim, facts Facts) *Metadata {
	if facts.MetadataDir == "" {
		return nil
	}
	return &Metadata{
		Dir:      filepath.Join(facts.MetadataDir, string(claim.UID)),
		PodClaim: podClaimName(claim),
	}
}

// Mounts returns the files of a plan's requests, in the order of the requests. A container has all devices of a request
// or none, so only the first device mounts the file.
func (m *Metadata) Mounts(p *Plan) []MetadataMount {
	if m == nil {
		return nil
	}
	var mounts []MetadataMount
	for i, d := range p.Devices {
		request := BaseRequest(d.Request)
		if slices.ContainsFunc(mounts, func(o MetadataMount) bool { return o.Request == request }) {
			continue
		}
		inside := metadata.ResourceClaimFilePath(rdma.Domain, p.Name, request)
		if m.PodClaim != "" {
			inside = metadata.ResourceClaimTemplateFilePath(rdma.Domain, m.PodClaim, request)
		}
		mounts = append(mounts, MetadataMount{Request: request, device: i, Mount: cdi.Mount{
			HostPath: filepath.Join(m.Dir, request+".json"), ContainerPath: inside,
		}})
	}
	return mounts
}

// BaseRequest returns the name of a request without its subrequest: nic for nic/fast.
func BaseRequest(request string) string { return resourceclaim.BaseRequestRef(request) }
