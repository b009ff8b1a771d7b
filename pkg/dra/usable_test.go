package dra_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/shoenig/test"
)

// TestUsableRestart: a container is checked once, when it starts, so what was found outlives the driver: the condition
// of a claim has it after a later container of the claim was well, and after the status was lost. It ends with the
// claim.
func TestUsableRestart(t *testing.T) {
	t.Parallel()
	n, dir := drivertest.NewNode(t, "roce-sriov"), t.TempDir()
	reports := func(c *dra.Config) { c.Hook.ReportDir = dir }
	c := usedBy(drivertest.Claim(1, vf0), "a")
	n.AddClaim(c)
	starts := func(id, container string, result finding.Severity) {
		leaveReport(t, dir, c, func(r *record.Report) {
			r.ID, r.PodUID, r.Container = id, "uid-a", container
			r.Checks = []finding.Finding{{ID: record.Provider.ID, Subjects: []string{"mlx5_4"}, Severity: result,
				Message: "the check of " +
					container}}
		})
	}
	wants := func(want string) {
		t.Helper()
		drivertest.Eventually(t, func() error {
			got := "none"
			for _, s := range n.DeviceStatus(c) {
				if u := meta.FindStatusCondition(s.Conditions, "Usable"); u != nil {
					got = string(u.Status) + " " + u.Message
				}
			}
			if got != want {
				return fmt.Errorf("the condition Usable is %q, want %q", got, want)
			}
			return nil
		})
	}
	const bad = "False container train: provider of mlx5_4: the check of train"
	d := start(t, n, withStatus, reports)
	prepare(t, n, c)
	starts("1", "train", finding.Warning)
	starts("2", "beside", finding.NotSeen)
	wants(bad)

	d.stop()
	n.LoseStatus(c)
	d = start(t, n, withStatus, reports)
	wants(bad)

	d.stop()
	d = start(t, n, withStatus, reports)
	starts("3", "beside", finding.OK)
	drivertest.Eventually(t, func() error { return emptied(dir) })
	starts("4", "beside", finding.Warning)
	wants("False container beside: provider of mlx5_4: the check of beside; " + strings.TrimPrefix(bad, "False "))

	unprepare(t, n, c)
	d.stop() // what changed is stored at once then
	text, err := os.ReadFile(filepath.Join(n.StateDir, "checks.json"))
	test.True(t, (err == nil || errors.Is(err, os.ErrNotExist)) && !strings.Contains(string(text), "train"),
		test.Sprintf("after the claim, the driver keeps %s, %v", text, err))
}
