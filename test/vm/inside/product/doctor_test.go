package product

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// what returns what was found, without why it matters.
func (f finding) what() string {
	what, _, _ := strings.Cut(f.Message, "\n")
	return what
}

// report is what cdi-gen doctor -o json says.
type report struct {
	code     int
	Summary  map[string]int
	Findings []finding
}

type finding struct {
	ID, Severity, Message, Remedy string
	Subjects                      []string
}

// doctor looks at the guest, as the user whom the front of the command line says.
func doctor(t *testing.T, front ...string) report {
	t.Helper()
	argv := append(front, "cdi-gen", "doctor", "-o", "json")
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("parse the report: %v\n%s", err, out)
	}
	if exit != nil {
		r.code = exit.ExitCode()
	}
	return r
}

// find returns the finding of an ID that is about a subject, nil if there is none.
func (r report) find(id, subject string) *finding {
	for i, f := range r.Findings {
		about := subject == "" || slices.ContainsFunc(f.Subjects, func(s string) bool { return strings.Contains(s, subject) })
		if f.ID == id && about {
			return &r.Findings[i]
		}
	}
	return nil
}

// String lists what is not well.
func (r report) String() string {
	var b strings.Builder
	for _, f := range r.Findings {
		if f.Severity != "ok" {
			fmt.Fprintf(&b, "%s %s: %s %q; remedy: %s\n", f.Severity, f.ID, f.Message, f.Subjects, f.Remedy)
		}
	}
	return b.String()
}

// diagnose looks at a healthy guest, then plants faults one by one, and cures each with
// the command that the finding gives. Some commands fail here for want of udev, ethtool
// or systemd; what counts is that doctor finds nothing afterwards.
func diagnose(t *testing.T) {
	install(t)
	inside.Must(t, "cdi-gen", "generate", "--to", specDir)
	t.Run("healthy", healthy)
	t.Run("healthy, as a user", healthyUser)
	cured := func(t *testing.T, faults []fault) bool {
		for _, f := range faults {
			if !t.Run(f.name, f.run) {
				return false // what this one left would be found with the next
			}
		}
		return true
	}
	if !cured(t, kernelFaults(t)) {
		return
	}
	t.Run("files", func(t *testing.T) {
		needs.Long(t, "ten seconds each in the guest; TestFindings of internal/cdigen/doctor has these findings")
		cured(t, fileFaults(t))
	})
}

func healthy(t *testing.T) {
	r := doctor(t)
	if r.code != 0 || r.Summary["error"]+r.Summary["warning"]+r.Summary["not-seen"] > 0 {
		t.Errorf("status %d, %+v\n%s", r.code, r.Summary, r)
	}
	for _, id := range []string{
		"modules-ok", "netns-ok", "rdma-cgroup-ok", "nodes-ok", "ports-ok", "roce-gids-ok", "memlock-by-hook",
		"hook-ok", "specs-ok", "privilege-ok", "runtime-ok", "rdmamap-agrees",
	} {
		test.NotNil(t, r.find(id, ""), test.Sprintf("%s is missing: %+v", id, r.Findings))
	}
	if f := r.find("runtime-ok", ""); f != nil {
		inside.Wants(t, "runtime-ok", f.Message, "podman 4.3.1", "0.5.0")
	}
}

// healthyUser is for rootless podman: nothing is broken, but the hook cannot raise the
// hard limit.
func healthyUser(t *testing.T) {
	r := doctor(t, "setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "env", "HOME=/home/user")
	if r.code != 10 || r.Summary["error"] > 0 || r.Summary["warning"] != 1 ||
		r.find("memlock-clamped", "podman run") == nil {
		t.Errorf("status %d, %+v\n%s", r.code, r.Summary, r)
	}
}

// fault is a thing that is wrong on a real host.
type fault struct {
	name string
	// plant makes it, as a shell does.
	plant string
	// id, severity and subject are the finding's, code is the program's.
	id, severity, subject string
	code                  int
	// after does what the fix cannot, or cleans up what it leaves.
	after string
}

// kernelFaults are those of nodes, modules and links.
func kernelFaults(t *testing.T) []fault {
	uverbs := "/dev/infiniband/" + inside.Node(t, "infiniband_verbs", "rxe1")
	const stale = "/dev/infiniband/uverbs77"
	return []fault{
		{"device node for root", "chmod 0600 " + uverbs, "node-mode", "warning", uverbs, 10, ""},
		{"connection manager not loaded", "rmmod rdma_ucm", "rdma-cm-module", "warning", "", 11, ""},
		{"device node of nobody", "mknod " + stale + " c 231 269", "node-stale", "warning", stale, 10, ""},
		{"port without link", "ip link set dummy0 down", "port-down", "warning", "rxe1", 10, ""},
		{
			"device that came later", "rdma link add rxe7 type rxe netdev lo",
			"spec-incomplete", "warning", "rxe7", 10, "rdma link del rxe7; cdi-gen generate --to /etc/cdi",
		},
	}
}

// fileFaults are those of files, which no kernel changes.
func fileFaults(t *testing.T) []fault {
	umad := "/dev/infiniband/" + inside.Node(t, "infiniband_mad", "rxe0")
	const second, twin = "/etc/cdi/zcopy.yaml", "/etc/cdi/rdma.dev-hca.json"
	return []fault{
		{"management node for everyone", "chmod 0666 " + umad, "mad-node-open", "warning", umad, 10, ""},
		{"spec for root", "chmod 0600 " + specFile, "spec-mode", "warning", specFile, 10, ""},
		{
			"spec with the wrong ending",
			"cdi-gen generate --kind rdma.dev/second --to /etc/cdi/second.yaml && mv /etc/cdi/second.yaml /etc/cdi/second.yml",
			"spec-extension", "warning", "/etc/cdi/second.yml", 10, "rm /etc/cdi/second.yaml",
		},
		{"two files with one device", "cp " + specFile + " " + second, "spec-conflict", "error", second, 11, ""},
		{
			"two endings of one name",
			"cdi-gen generate --output json --to /tmp/twin && mv /tmp/twin/rdma.dev-hca.json /etc/cdi",
			"spec-twins", "error", twin, 11, "",
		},
		{
			"spec without the hook", "cdi-gen generate --no-hook --to /etc/cdi",
			"memlock-low", "warning", "podman run", 10, "",
		},
		{
			"hook is gone", "mv /usr/bin/rdma-hook /usr/bin/rdma-hook.away",
			"hook-missing", "error", specFile, 11, "mv /usr/bin/rdma-hook.away /usr/bin/rdma-hook",
		},
		{
			"spec from before the connection manager", "rmmod rdma_ucm && cdi-gen generate --to /etc/cdi && modprobe rdma_ucm",
			"spec-incomplete", "warning", "/dev/infiniband/rdma_cm", 10, "",
		},
	}
}

func (f fault) run(t *testing.T) {
	inside.Must(t, "sh", "-c", f.plant)
	r := doctor(t)
	found := r.find(f.id, f.subject)
	if found == nil || found.Severity != f.severity || r.code != f.code {
		t.Fatalf("status %d, want %d, and %s %s about %q; found:\n%s", r.code, f.code, f.severity, f.id, f.subject, r)
	}
	cure := inside.Run("sh", "-c", found.Remedy)
	t.Logf("%s %s: %s %q\nremedy: %s\n%s(status %d)", found.Severity, found.ID, found.Message, found.Subjects,
		found.Remedy, cure.Out, cure.Code)
	if f.after != "" {
		inside.Must(t, "sh", "-c", f.after)
	}
	if r := doctor(t); r.code != 0 {
		t.Errorf("after the fix: status %d\n%s", r.code, r)
	}
}
