package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

func fullReport(id string) record.Report {
	want := args.Unlimited
	return record.Report{
		ReportVersion: record.Version,
		HookVersion:   "v1.2.3",
		ID:            id,
		PID:           4242,
		Status:        "creating",
		Time:          time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC),
		Claim:         "4b1f",
		PodUID:        "77aa",
		Container:     "worker",
		HostNetwork:   new(false),
		Want:          &want,
		Outcome:       record.Clamped,
		Message:       "need \"more\"\\\x01é",
		Before:        new(limits(65536, 8<<20)),
		After:         new(limits(8<<20, args.Unlimited)),
		Limits: []record.DeviceLimit{
			{Device: "rxe0", Want: args.Wanted{Handles: 64}, Outcome: record.Limited, Message: "set",
				Before: new(counts(args.NoLimit, args.NoLimit)), After: new(counts(64, args.NoLimit))},
			{Device: "rxe1", Want: args.Wanted{Objects: 2}, Outcome: record.Unenforced, Message: "no controller"},
			{Device: "rxe2", Want: args.Wanted{Handles: 1, Objects: 2}, Outcome: record.Already, Message: "already",
				Before: new(counts(0, 2)), After: new(counts(0, 2))},
		},
		Warnings: []string{"one", "two"},
	}
}

// Every field is in the file under its own name.
func TestReportJSON(t *testing.T) {
	for name, want := range map[string]record.Report{
		"full":  fullReport("web"),
		"least": {ReportVersion: 1, ID: "web", Outcome: record.Skipped, Time: time.Unix(0, 0).UTC()},
	} {
		text, err := json.Marshal(want)
		must.NoError(t, err)
		var got record.Report
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s reads back as %+v, %v", name, text, got, err)
		}
	}
}

// A report has the name of the container, with those of the claim and of the device with
// limits where there are any, so that two hooks of a container leave two reports.
func TestWriteReport(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	limits := fullReport("web-1.2_a+b")
	memlock := limits
	memlock.Limits = nil
	claim := memlock
	memlock.Claim = ""
	for range 2 { // the second replaces the first
		must.NoError(t, errors.Join(WriteReport(dir, memlock), WriteReport(dir, claim), WriteReport(dir, limits)))
	}
	for _, name := range []string{"web-1.2_a+b.json", "web-1.2_a+b.4b1f.json", "web-1.2_a+b.4b1f.rxe0.json"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != 0o644 {
			t.Fatalf("%s: mode %v, %v; want 0644 under any umask", name, info.Mode(), err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Fatalf("directory holds %v, %v; want the reports only", entries, err)
	}
}

func TestWriteReportRefusesIDs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "reports")
	must.NoError(t, os.Mkdir(dir, 0o755))
	for _, id := range []string{"", ".", "..", "../x", "a/b", "/etc/x", ".hidden", "a\x00b", "a b", "é", "a\n",
		strings.Repeat("a", 221)} {
		test.Error(t, WriteReport(dir, fullReport(id)), test.Sprintf("WriteReport for the ID %q: no error", id))
	}
	odd := fullReport("web")
	odd.Limits[0].Device = "../../rxe0"
	test.Error(t, WriteReport(dir, odd), test.Sprint("WriteReport for a device with a path in its name: no"))
	odd = fullReport("web")
	odd.Claim = "../../claim"
	test.Error(t, WriteReport(dir, odd), test.Sprint("WriteReport for a claim with a path in its name: no"))
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if entries, _ := os.ReadDir(d); len(entries) > 1 || d == dir && len(entries) > 0 {
			t.Errorf("%s holds %v", d, entries)
		}
	}
}

func TestWriteReportErrors(t *testing.T) {
	dir := t.TempDir()
	report := fullReport("web")
	report.Limits, report.Claim = nil, ""
	test.ErrorIs(t, WriteReport(dir+"/missing", report), os.ErrNotExist, test.Sprint("missing directory"))
	// The final rename fails on a directory; the temporary file must not stay.
	must.NoError(t, os.Mkdir(dir+"/web.json", 0o755))
	test.ErrorContains(t, WriteReport(dir, report), dir+"/web.json", test.Sprint("directory in the way"))
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("a temporary file stays: %v", entries)
	}
}

// TestWriteReportFullDisk has a node of its own for the kernel's full device: a report gets its mode, whatever it is.
func TestWriteReportFullDisk(t *testing.T) {
	needs.Root(t, "it makes a device node")
	full := filepath.Join(t.TempDir(), "full")
	must.NoError(t, unix.Mknod(full, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 7))))
	test.ErrorIs(t, writeFile(full, []byte("x")), unix.ENOSPC, test.Sprint("full disk"))
}

// TestWriteLastReport: the hook makes the directory, and a later report takes the place of the one before.
func TestWriteLastReport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rdma.dev")
	file := filepath.Join(dir, "last.json")
	for _, id := range []string{"one", "two"} {
		must.NoError(t, WriteLastReport(file, record.Report{ReportVersion: 1, ID: id}))
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), `"id":"two"`) {
		t.Errorf("the report is %s, %v", text, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("entries %v, %v", entries, err)
	}
	test.ErrorIs(t, WriteLastReport(filepath.Join(dir, "absent/x/last.json"), record.Report{}), os.ErrNotExist)
	if _, _, err := args.Parse([]string{"--last-report", "last.json"}); err == nil {
		t.Error("a relative path is accepted")
	}
}
