package reports

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
)

func nothing(record.Report) error { return nil }

// TestTakeRecords: a report goes after it was recorded, and until then it is pending for its claim.
func TestTakeRecords(t *testing.T) {
	dir := t.TempDir()
	for _, device := range []string{"", "mlx5_0"} {
		r := record.Report{ReportVersion: record.Version, ID: "web", Claim: "c0ffee", Time: time.Now(),
			Outcome: record.Raised}
		if device != "" {
			r.Limits = []record.DeviceLimit{{Device: device, Outcome: record.Limited}}
		}
		must.NoError(t, hook.WriteReport(dir, r))
	}
	pending := func(claim string) bool {
		t.Helper()
		is, err := Pending(dir, claim)
		test.NoError(t, err)
		return is
	}
	full := errors.New("no space left on device")
	found, err := Take(dir, func(r record.Report) error {
		test.True(t, pending(r.Claim), test.Sprint("the report is not pending as it is recorded"))
		if len(r.Limits) > 0 {
			return full
		}
		return nil
	})
	if len(found) != 1 || !errors.Is(err, full) || !pending("c0ffee") || pending("c0ff") {
		t.Errorf("found %+v, %v", found, err)
	}
	if found, err := Take(dir, nothing); len(found) != 1 || err != nil || pending("c0ffee") {
		t.Errorf("found %+v, %v", found, err)
	}
	if _, err := Pending(filepath.Join(dir, "absent"), "c0ffee"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// What hooks of one container wrote is read once, limits too; what is no report is said,
// and what is not finished stays.
func TestTake(t *testing.T) {
	dir := t.TempDir()
	memlock := record.Report{ReportVersion: record.Version, ID: "web", PID: 1, Time: time.Now(), Outcome: record.Raised}
	limits := memlock
	limits.Limits = []record.DeviceLimit{{
		Device: "mlx5_0", Want: args.Wanted{Handles: 64}, Outcome: record.Limited,
		Before: &record.Resources{Handles: args.NoLimit, Objects: args.NoLimit},
		After:  &record.Resources{Handles: 64, Objects: args.NoLimit},
	}, {Device: "mlx5_1", Want: args.Wanted{Objects: 9}, Outcome: record.Unenforced, Message: "no controller"}}
	must.NoError(t, errors.Join(hook.WriteReport(dir, memlock), hook.WriteReport(dir, limits)))
	for name, text := range map[string]string{"garbage.json": "{", ".web.77.tmp": "{"} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	found, err := Take(dir, nothing)
	test.ErrorContains(t, err, `read the hook's report "garbage.json"`)
	if len(found) != 2 || len(found[0].Limits)+len(found[1].Limits) != 2 {
		t.Fatalf("found %+v", found)
	}
	for _, r := range found {
		if r.ID != "web" || r.Outcome != record.Raised {
			t.Errorf("report %+v", r)
		}
		if len(r.Limits) > 0 && (*r.Limits[0].After != record.Resources{Handles: 64, Objects: args.NoLimit} ||
			r.Limits[1].Want.String() != "objects 9" || r.Limits[1].After != nil) {
			t.Errorf("limits %+v", r.Limits)
		}
	}
	if again, err := Take(dir, nothing); len(again) > 0 || err != nil {
		t.Errorf("read again: %+v, %v", again, err)
	}
}

// What is no file, or larger than a report, is not waited for and not read.
func TestTakeRefuses(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.json")
	if err := errors.Join(syscall.Mkfifo(filepath.Join(dir, "fifo.json"), 0o644), os.WriteFile(large, nil, 0o644),
		os.Truncate(large, 1<<40),
		hook.WriteReport(dir, record.Report{ReportVersion: record.Version, ID: "web", Outcome: record.Raised})); err != nil {
		t.Fatal(err)
	}
	found, err := Take(dir, nothing)
	if len(found) != 1 || !errors.Is(err, hostfs.ErrNotRegular) || !errors.Is(err, hostfs.ErrTooLarge) {
		t.Errorf("found %+v, %v", found, err)
	}
	if again, err := Take(dir, nothing); len(again) > 0 || err != nil {
		t.Errorf("read again: %+v, %v", again, err)
	}
}

func TestTakeWithoutDirectory(t *testing.T) {
	if _, err := Take(filepath.Join(t.TempDir(), "absent"), nothing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// FuzzTake: a report says what the hook said, whatever words it was given by kernel and runtime; and
// whatever a file says that looks like one, it is read once.
func FuzzTake(f *testing.F) {
	f.Add("web", "raise the limit: permission denied", "unknown flag \"--x\"", []byte("{"))
	f.Add("a\x00b\x7f\u2028", "\xff\\u0000\n\t\"", "",
		[]byte(`{"reportVersion":1,"limits":[{"device":null}],"before":{}}`))
	f.Fuzz(func(t *testing.T, id, message, warning string, garbage []byte) {
		dir := t.TempDir()
		said := record.Report{ReportVersion: record.Version, ID: id, Message: message, Outcome: record.Raised,
			Warnings: []string{warning}}
		text, err := json.Marshal(said)
		must.NoError(t, err)
		for name, data := range map[string][]byte{"one.json": text, "two.json": garbage} {
			must.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
		}
		found, _ := Take(dir, nothing)                              // of the garbage it may say anything
		valid := func(s string) string { return string([]rune(s)) } // each byte that is none of UTF-8 is U+FFFD
		if !slices.ContainsFunc(found, func(r record.Report) bool {
			return valid(r.ID) == valid(id) && valid(r.Message) == valid(message) && len(r.Warnings) == 1 &&
				valid(r.Warnings[0]) == valid(warning)
		}) {
			t.Errorf("%+v became %+v", said, found)
		}
		if again, err := Take(dir, nothing); len(again) > 0 || err != nil {
			t.Errorf("read again: %+v, %v", again, err)
		}
	})
}
