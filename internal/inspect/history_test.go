package inspect_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/patch"
)

// sickCluster is a cluster with a card that became slow, as slices, claims and events of its node tell.
func sickCluster(t *testing.T) *model.Cluster {
	var tell struct {
		Claim  []resourceapi.AllocatedDeviceStatus
		Events []corev1.Event
	}
	patch.File(t, "testdata/history.yaml", &tell)
	f := fleet.Mixed(t)
	f.Taint("node1", "pci-0000-18-00-0", "rdma.dev/port-slow", "None").TimeAdded =
		&metav1.Time{Time: time.Date(2026, 11, 21, 2, 13, 0, 0, time.UTC)}
	f.Claims["train"].Status.Devices = tell.Claim
	c := cluster(f)
	c.Now, c.Events = time.Date(2026, 11, 21, 5, 30, 0, 0, time.UTC), tell.Events
	return c
}

// TestHistory: what happened to a device stands in slices, claims and events alone: its taint and since when, what its
// claims say, and the events that name it. Others are left out.
func TestHistory(t *testing.T) {
	c := sickCluster(t)
	for _, name := range []string{"pci-0000-18-00-0", "mlx5_0"} {
		h, err := lists.History(t.Context(), c, "node1", name)
		must.NoError(t, err)
		var b bytes.Buffer
		must.NoError(t, h.WriteText(&b))
		golden.Bytes(t, "history.txt", b.Bytes())
	}
	for name, node := range map[string]string{"mlx5_77": "node1", "mlx5_0": "node9"} {
		if h, err := lists.History(t.Context(), c, node, name); err == nil {
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
	h, err := lists.History(t.Context(), c, "node1", "mlx5_0")
	if err != nil || len(h.Events) != 16 {
		t.Fatalf("%d events are kept, %v; want 16", len(h.Events), err)
	}
	var b bytes.Buffer
	must.NoError(t, h.WriteText(&b))
	if strings.Contains(b.String(), "\x1b") || b.Len() > 64<<10 {
		t.Errorf("the text has %d bytes, or characters on which a terminal acts: %.200q", b.Len(), b.String())
	}
}
