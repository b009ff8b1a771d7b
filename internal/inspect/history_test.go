package inspect_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// sickCluster is a cluster with a card that became slow, as slices, claims and events of its node tell.
func sickCluster(t *testing.T) *inspect.Cluster {
	const name = "pci-0000-18-00-0"
	c := mixedCluster(t)
	c.Now = time.Date(2026, 11, 21, 5, 30, 0, 0, time.UTC)
	began := metav1.NewTime(time.Date(2026, 11, 21, 2, 13, 0, 0, time.UTC))
	for i := range c.Slices {
		for j := range c.Slices[i].Spec.Devices {
			if d := &c.Slices[i].Spec.Devices[j]; d.Name == name {
				d.Taints = []resourceapi.DeviceTaint{{Key: "rdma.dev/port-slow", Effect: "None", TimeAdded: &began}}
			}
		}
	}
	for i := range c.Claims {
		claim := &c.Claims[i]
		if claim.Name != "train" {
			continue
		}
		results := claim.Status.Allocation.Devices.Results
		r := results[slices.IndexFunc(results, func(r resourceapi.DeviceRequestAllocationResult) bool { return r.Device == name })]
		claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
			Driver: r.Driver, Pool: r.Pool, Device: r.Device, Conditions: []metav1.Condition{{
				Type: "Healthy", Status: metav1.ConditionFalse, Reason: "RDMAPortSlow", LastTransitionTime: began,
				Message: "mlx5_0: the rate is 200 Gb/s, and the policy's minRateGbps is 400",
			}},
		}}
	}
	event := func(after time.Duration, reason, message string, count int32) {
		c.Events = append(c.Events, corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "node1"}, Source: corev1.EventSource{Component: "rdma.dev"},
			Type: "Warning", Reason: reason, Message: message, Count: count,
			FirstTimestamp: metav1.NewTime(began.Add(after - time.Hour)), LastTimestamp: metav1.NewTime(began.Add(after)),
		})
	}
	event(0, "RDMAPortSlow", "RDMA device "+name+" (mlx5_0): the rate is 200 Gb/s, and the policy's minRateGbps is 400", 1)
	event(time.Hour, "RDMAPortFlapping", "2 RDMA devices: pci-0000-29-00-0 (mlx5_1), "+name+
		" (mlx5_0): the first: port 1 fell 3 times within 24h", 2)
	event(2*time.Hour, "RDMAPortDown", "RDMA device "+name+"-sf-88 (mlx5_9): another one", 1)
	event(3*time.Hour, "RDMAPortDown", "RDMA device pci-0000-29-00-0 (mlx5_1): another one", 1)
	foreign := c.Events[0]
	foreign.Source.Component = "someone"
	c.Events = append(c.Events, foreign)
	return c
}

// TestHistory: what happened to a device stands in slices, claims and events alone: its taint and since when, what its
// claims say, and the events that name it. Others are left out.
func TestHistory(t *testing.T) {
	c := sickCluster(t)
	for _, name := range []string{"pci-0000-18-00-0", "mlx5_0"} {
		h, err := c.History(t.Context(), "node1", name)
		must.NoError(t, err)
		var b bytes.Buffer
		must.NoError(t, h.WriteText(&b))
		golden.Bytes(t, "history.txt", b.Bytes())
	}
	for name, node := range map[string]string{"mlx5_77": "node1", "mlx5_0": "node9"} {
		if h, err := c.History(t.Context(), node, name); err == nil {
			t.Errorf("%s/%s is %+v", node, name, h)
		}
	}
}

// TestHistoryIsBounded: whoever may write events makes the answer neither long nor harmful.
func TestHistoryIsBounded(t *testing.T) {
	c := sickCluster(t)
	evil := c.Events[0]
	evil.Message = "RDMA device pci-0000-18-00-0 (mlx5_0): \x1b[31m\n" + strings.Repeat("x", 1<<16)
	for range 1000 {
		c.Events = append(c.Events, evil)
	}
	h, err := c.History(t.Context(), "node1", "mlx5_0")
	if err != nil || len(h.Events) != 16 {
		t.Fatalf("%d events are kept, %v; want 16", len(h.Events), err)
	}
	var b bytes.Buffer
	must.NoError(t, h.WriteText(&b))
	if strings.Contains(b.String(), "\x1b") || b.Len() > 64<<10 {
		t.Errorf("the text has %d bytes, or characters on which a terminal acts: %s", b.Len(), fmt.Sprintf("%.200q", b.String()))
	}
}
