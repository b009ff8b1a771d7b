package inspect_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

func jobsCluster(t *testing.T) *model.Cluster {
	f := fleet.Jobs(t)
	c := cluster(f)
	c.UserPods = f.Pods
	return c
}

// TestPods: jobs and pods with problems come first, and a row sums up pods without problems.
func TestPods(t *testing.T) {
	pods := lists.Pods(context.Background(), jobsCluster(t))
	golden.Bytes(t, "pods.txt", printed(t, lists.PodTable(pods, false, false), false))
	golden.Bytes(t, "pods-wide.txt", printed(t, lists.PodTable(pods, true, true), true))
	golden.JSON(t, "pods", pods[:2])
	well := slices.IndexFunc(pods, func(p lists.Pod) bool { return p.Job == "job/allreduce" })
	for i, p := range pods {
		if i > well && len(p.Problems) > 0 {
			t.Errorf("pod %s with a problem is behind a job without", p.Name)
		}
		if p.Name == "allreduce-old" || p.Name == "trainer" {
			t.Errorf("pod %s has ended, or has no claim", p.Name)
		}
	}
}

// TestPodsUnread: without the right to read pods or slices, the claims tell the rest.
func TestPodsUnread(t *testing.T) {
	c := jobsCluster(t)
	c.UserPods, c.Slices = nil, nil
	c.Unread = []model.Unread{{Kind: model.Pods}, {Kind: model.UserPods}, {Kind: model.Slices}}
	pods := lists.Pods(context.Background(), c)
	test.Eq(t, 11, len(pods), test.Sprint("pods"))
	for _, p := range pods {
		if len(p.Problems) > 0 || len(p.Devices) != 1 || p.Node == "" {
			t.Errorf("without pods and slices: %+v", p)
		}
	}
	table := string(printed(t, lists.PodTable(pods, false, false), false))
	if !strings.Contains(table, "allreduce-0") || !strings.Contains(table, "node1/pci-") {
		t.Errorf("without pods and slices:\n%s", table)
	}
}
