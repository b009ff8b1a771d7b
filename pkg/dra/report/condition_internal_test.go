package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
)

// TestUsable: the condition of a device is that of the last start of each container, and is absent while nothing was
// checked.
func TestUsable(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	s := NewClaimStatus(Config{Budget: budget.New(budget.Default(), clock, func() float64 { return 0 }), Clock: clock})
	defer s.turns.queue.ShutDown()
	starts := func(id, container string, checks ...finding.Finding) {
		s.Checked("claim", record.Report{ID: id, PodUID: "pod", Container: container, Checks: checks})
	}
	wants := func(ibdev string, status metav1.ConditionStatus, reason string, says ...string) {
		t.Helper()
		c := s.checks.claim("claim").condition([]HCAData{{IBDev: ibdev}})
		if c == nil {
			test.Eq(t, "", status, test.Sprintf("%s has no condition", ibdev))
			return
		}
		if c.Status != status || c.Reason != reason || !containsAll(c.Message, says) {
			t.Errorf("%s has %+v", ibdev, *c)
		}
	}
	good := finding.Finding{ID: record.Provider.ID, Subjects: []string{"mlx5_0"}, Severity: finding.OK,
		Message: `provider "libmlx5.so"`}
	bad := finding.Finding{ID: record.Provider.ID, Subjects: []string{"mlx5_0"}, Severity: finding.Warning,
		Message: "no provider",
		Remedy:  "install it"}
	denied := finding.Finding{ID: record.Permission.ID, Subjects: []string{"mlx5_0"}, Severity: finding.Warning,
		Message: "not for user 1000"}
	memlock := finding.Finding{ID: record.Memlock.ID, Severity: finding.Warning,
		Message: "8 MiB\x1b[31m"}
	unknown := finding.Finding{ID: record.Provider.ID, Subjects: []string{"mlx5_0"}, Severity: finding.NotSeen,
		Message: "no libibverbs"}

	wants("mlx5_0", "", "")
	starts("1", "train", unknown)
	wants("mlx5_0", "", "")
	starts("2", "train", denied)
	starts("2", "train", bad)
	wants("mlx5_0", "False", "ProviderUnusable", "container train: provider of mlx5_0: no provider", "install it", "user 1000")
	wants("mlx5_1", "", "")
	starts("3", "train", good)
	starts("4", "beside", memlock)
	wants("mlx5_0", "False", "LockedMemoryLow", "container beside: memlock: 8 MiB", `\x1b`)
	wants("mlx5_1", "False", "LockedMemoryLow")
	newer := finding.Finding{ID: "of-a-newer-hook", Severity: finding.Warning, Message: "it is newer"}
	starts("5", "beside", newer)
	wants("mlx5_0", "False", "Unusable", "it is newer")
	starts("6", "beside", good)
	wants("mlx5_0", "True", "Checked", "container beside: ", `container train: provider of mlx5_0: provider "libmlx5.so"`)
	s.Ended("claim")
	wants("mlx5_0", "", "")
}

// TestBytesOfChecks: one user's containers, each with messages as long as the hook lets an image make them, take bounded
// memory, take nothing from others, and are stored once for many reports. What was dropped is not called usable.
func TestBytesOfChecks(t *testing.T) {
	stored := 0
	k := newChecks(nil)
	k.store = func() { stored++ }
	add := func(claim types.UID, container string, checks ...finding.Finding) {
		k.add(claim, record.Report{ID: container, PodUID: "pod", Container: container, Checks: checks})
	}
	ok := finding.Finding{ID: record.Provider.ID, Subjects: []string{"mlx5_0"}, Severity: finding.OK,
		Message: "libmlx5"}
	add("other", "train", ok)
	long := ok
	long.Message = strings.Repeat("x", 600)
	for claim := range 63 { // the shares of an HCA
		for container := range 65 {
			add(types.UID(fmt.Sprint(claim)), fmt.Sprint(container), slices.Repeat([]finding.Finding{long}, 16)...)
		}
	}
	sum := 0
	for _, starts := range k.of {
		for c, one := range starts {
			sum += one.size() + len(c.name) + len(c.pod)
		}
	}
	test.True(t, sum == k.total && sum <= maxCheckBytes && stored == 63*65+1,
		test.Sprintf("%d bytes are kept, %d counted, stored %d times; want at most %d", sum, k.total, stored,
			maxCheckBytes))
	for claim, want := range map[types.UID]metav1.ConditionStatus{"other": metav1.ConditionTrue, "7": metav1.ConditionUnknown} {
		c := k.claim(claim).condition([]HCAData{{IBDev: "mlx5_0"}})
		test.True(t, c != nil && c.Status == want, test.Sprintf("claim %s has %+v, want %s", claim, c, want))
	}
	for claim := range k.of {
		k.end(claim)
	}
	test.True(t, k.total == 0 && len(k.bytes) == 0, test.Sprintf("%d bytes are left", k.total))
}

func containsAll(text string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}
