package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// bare is an allocated claim, which a test changes.
func bare(change func(*resourceapi.ResourceClaim)) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "claim", UID: "5ba4e000-0000-4000-8000-000000000001"}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	c.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{
		{Request: "nic", Driver: rdma.Domain, Pool: "node1", Device: "pci-0000-19-00-0"},
	}
	change(c)
	return c
}

func owned(c *resourceapi.ResourceClaim, uid types.UID, controller bool) {
	c.OwnerReferences = append(c.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: uid, Controller: &controller})
}

// TestPodClaimName: the annotation counts only where the control plane wrote it, and never as a path.
func TestPodClaimName(t *testing.T) {
	const pod = "77aa0000-0000-4000-8000-000000000001"
	for name, tc := range map[string]struct {
		annotation string
		owner      func(*resourceapi.ResourceClaim)
		want       string
	}{
		"of a template":        {"nic", func(c *resourceapi.ResourceClaim) { owned(c, pod, true) }, "nic"},
		"made by hand":         {"nic", func(*resourceapi.ResourceClaim) {}, ""},
		"no controller":        {"nic", func(c *resourceapi.ResourceClaim) { owned(c, pod, false) }, ""},
		"controlled by others": {"nic", func(c *resourceapi.ResourceClaim) { owned(c, pod, true); c.OwnerReferences[0].Kind = "Job" }, ""},
		"a path":               {"../../../../../etc/ld.so.conf.d", func(c *resourceapi.ResourceClaim) { owned(c, pod, true) }, ""},
		"a long one":           {strings.Repeat("a", 250<<10), func(c *resourceapi.ResourceClaim) { owned(c, pod, true) }, ""},
		"a dot":                {"..", func(c *resourceapi.ResourceClaim) { owned(c, pod, true) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := bare(func(c *resourceapi.ResourceClaim) {
				c.Annotations = map[string]string{resourceapi.PodResourceClaimAnnotation: tc.annotation}
				tc.owner(c)
			})
			p, err := New(c, Facts{Pool: "node1", Site: DefaultSite(), MetadataDir: "/run/metadata"})
			must.NoError(t, err)
			test.Eq(t, tc.want, p.Metadata.PodClaim, test.Sprint("the pod's name of the claim"))
			for _, m := range p.Metadata.Mounts(p) {
				test.True(t, strings.HasPrefix(m.ContainerPath, "/var/run/kubernetes.io/dra-device-attributes/") &&
					!strings.Contains(m.ContainerPath, ".."), test.Sprintf("mounted at %.80q", m.ContainerPath))
			}
		})
	}
}

// TestUnboundedFields: what no API server bounds is refused, by the name of its field.
func TestUnboundedFields(t *testing.T) {
	long := types.UID(strings.Repeat("7", 1<<20))
	for field, change := range map[string]func(*resourceapi.ResourceClaim){
		"metadata.ownerReferences[0].uid: Too long":      func(c *resourceapi.ResourceClaim) { owned(c, long, true) },
		"metadata.ownerReferences[0].uid: Invalid value": func(c *resourceapi.ResourceClaim) { owned(c, "../x", true) },
		"metadata.uid: Invalid value":                    func(c *resourceapi.ResourceClaim) { c.UID = "../../x" },
		"status.reservedFor[0].uid: Too long": func(c *resourceapi.ResourceClaim) {
			c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", UID: long}}
		},
		"status.reservedFor: Too many: 300": func(c *resourceapi.ResourceClaim) {
			c.Status.ReservedFor = make([]resourceapi.ResourceClaimConsumerReference, 300)
		},
		"status.allocation.devices.results[0].request: Invalid value": func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Request = "../../etc" },
		"status.allocation.devices.results: Too many: 33: must have at": func(c *resourceapi.ResourceClaim) {
			one := c.Status.Allocation.Devices.Results[0]
			for range 32 {
				c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, one)
			}
		},
	} {
		_, err := New(bare(change), Facts{Pool: "node1", Site: DefaultSite()})
		test.True(t, err != nil && strings.Contains(err.Error(), field) && len(err.Error()) <= MaxError,
			test.Sprintf("error %.200v, want one with %q", err, field))
	}
	_, err := New(bare(func(*resourceapi.ResourceClaim) {}), Facts{Pool: "node1", Site: DefaultSite()})
	test.NoError(t, err)
}

func TestBounded(t *testing.T) {
	cause := errors.New(strings.Repeat("ä", 1<<20))
	got := Bounded(fmt.Errorf("claim: %w", cause))
	if !errors.Is(got, cause) || len(got.Error()) > MaxError || !strings.HasPrefix(got.Error(), "claim: ää") || !strings.HasSuffix(got.Error(), "is left out)") {
		t.Errorf("%d bytes: %.20q", len(got.Error()), got.Error())
	}
	short := errors.New("short")
	test.True(t, Bounded(short) == short && Bounded(nil) == nil, test.Sprint("a short error is changed"))
}
