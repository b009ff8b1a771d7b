package claims

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/klog/v2/ktesting"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
)

// TestLogReports: a report is logged once, a bad outcome as an error, and then it
// is gone; what is no report is said, and gone as well.
func TestLogReports(t *testing.T) {
	dir := t.TempDir()
	want := args.Unlimited
	for id, outcome := range map[string]record.Outcome{"good": record.Raised, "bad": record.Clamped} {
		r := record.Report{ReportVersion: record.Version, ID: id, PID: 1, Time: time.Now(), Want: &want, Outcome: outcome,
			Message: "words of " + id}
		must.NoError(t, hook.WriteReport(dir, r))
	}
	limits := record.Report{ReportVersion: record.Version, ID: "shared", Outcome: record.Already,
		Limits: []record.DeviceLimit{
			{Device: "mlx5_0", Want: args.Wanted{Handles: 64}, Outcome: record.Limited, Message: "set"},
			{Device: "mlx5_1", Want: args.Wanted{Objects: 9}, Outcome: record.Unenforced, Message: "no controller"},
		}}
	must.NoError(t, hook.WriteReport(dir, limits))
	for name, content := range map[string]string{"garbage.json": "{", "unfinished.tmp": "{"} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(2)))
	logReports(logger, dir, func(record.Report) error { return nil })
	text := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	for _, line := range []string{`INFO Locked memory limit of a container container="good"`, `ERROR Locked memory limit of a container is lower than its claim asks for container="bad"`, "words of bad",
		`INFO Limit of a container on an HCA container="shared" ibdev="mlx5_0" limit="handles 64" outcome="limited" detail="set"`,
		`ERROR A container is not limited on an HCA as its claim says container="shared" ibdev="mlx5_1" limit="objects 9" outcome="unlimited" detail="no controller"`, `read the hook's report \"garbage.json\"`} {
		test.StrContains(t, text, line, test.Sprint("the log lacks"))
	}
	entries, err := os.ReadDir(dir)
	test.True(t, err == nil && len(entries) == 1 && entries[0].Name() == "unfinished.tmp",
		test.Sprintf("left over: %v, %v", entries, err))
}
