package lists

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Claim is a claim for RDMA devices.
type Claim struct {
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	State     model.ClaimState `json:"state"`
	Node      string           `json:"node,omitempty"`
	// Classes are the classes of its requests; Devices are allocated to it.
	Classes []string `json:"classes"`
	Devices []string `json:"devices,omitempty"`
	// IBDevs are the kernel's names of the devices, as the driver publishes them.
	IBDevs []string `json:"ibdevs,omitempty"`
	// Pods are those that it is reserved for. PodGroups may use it by all their pods, which are not in the claim.
	Pods      []string `json:"pods,omitempty"`
	PodGroups []string `json:"podGroups,omitempty"`
	// Addresses are those of its network interfaces in a pod, as the driver reports them.
	Addresses []string `json:"addresses,omitempty"`
	// NotReady are the devices that the driver reports as not ready, with the reason.
	NotReady []string    `json:"notReady,omitempty"`
	Created  metav1.Time `json:"created"`
}

// Claims returns the claims that have devices of this driver, or request a class of this
// driver. Such a class selects a device of this driver, or names the driver in its
// selectors.
func Claims(ctx context.Context, c *model.Cluster) []Claim {
	v := c.View()
	ours := v.ClassesOfDriver(ctx)
	var out []Claim
	for i := range c.Claims {
		claim := &c.Claims[i]
		if !concerns(claim, ours) {
			continue
		}
		out = append(out, Claim{
			Namespace: claim.Namespace, Name: claim.Name, State: model.StateOf(claim), Node: model.ClaimNode(claim),
			Classes: classesOf(claim), Devices: model.AllocatedTo(claim), IBDevs: ibdevsOf(v, claim),
			Pods: model.PodsOf(claim), PodGroups: model.PodGroupsOf(claim),
			Addresses: addressesOf(claim), NotReady: notReady(claim), Created: claim.CreationTimestamp,
		})
	}
	slices.SortFunc(out, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func concerns(claim *resourceapi.ResourceClaim, classes map[string]bool) bool {
	if claim.Status.Allocation != nil {
		return model.ClaimNode(claim) != ""
	}
	return slices.ContainsFunc(classesOf(claim), func(name string) bool {
		known, ok := classes[name]
		return known || !ok && strings.HasSuffix(name, rdma.Domain)
	})
}

func classesOf(claim *resourceapi.ResourceClaim) []string {
	var out []string
	for _, r := range model.RequestsOf(claim) {
		out = model.AppendNew(out, r.Class)
	}
	return out
}

// addressesOf returns the addresses that the driver reports in the status of a claim.
func addressesOf(claim *resourceapi.ResourceClaim) (out []string) {
	for _, d := range claim.Status.Devices {
		if d.Driver == rdma.Domain && d.NetworkData != nil {
			out = append(out, d.NetworkData.IPs...)
		}
	}
	return out
}

func notReady(claim *resourceapi.ResourceClaim) []string {
	var out []string
	for _, s := range claim.Status.Devices {
		for _, c := range s.Conditions {
			if s.Driver == rdma.Domain && c.Type == "Ready" && c.Status == metav1.ConditionFalse {
				out = append(out, s.Device+": "+c.Message)
			}
		}
	}
	return out
}

// ibdevsOf returns the kernel's names of a claim's devices.
func ibdevsOf(v *model.View, claim *resourceapi.ResourceClaim) []string {
	var out []string
	for _, r := range model.ResultsOf(claim) {
		d := v.Known[structured.MakeDeviceID(r.Driver, r.Pool, r.Device)]
		if d != nil && r.Driver == rdma.Domain && d.Text(rdma.AttributeIBDev) != "" {
			out = model.AppendNew(out, d.Text(rdma.AttributeIBDev))
		}
	}
	return out
}

// ClaimTable shows claims, with their ages at now.
func ClaimTable(claims []Claim, namespaces bool, now time.Time) *metav1.Table {
	names := []string{"Name", "State", "Node", "IBDevs", "Pods", "Age", "wide", "Classes", "Devices", "Addresses",
		"Not-Ready"}
	if namespaces {
		names = append([]string{"Namespace"}, names...)
	}
	t := Columns(names...)
	for _, c := range claims {
		age := "<unknown>"
		if !c.Created.IsZero() {
			age = duration.HumanDuration(now.Sub(c.Created.Time))
		}
		cells := []any{
			c.Name, string(c.State), c.Node, model.Few(c.IBDevs, 4), model.Few(c.Users(), 3), age,
			strings.Join(c.Classes, ","), model.Few(c.Devices, 8), model.Few(c.Addresses, 8), strings.Join(c.NotReady, "; "),
		}
		if namespaces {
			cells = append([]any{c.Namespace}, cells...)
		}
		Row(t, cells...)
	}
	return t
}
