package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// A spec stays right, stays alone, and stays ours: what generate and watch do with the
// files that are there.

const gpuSpec = "cdiVersion: 0.3.0\nkind: nvidia.com/gpu\ndevices: [{name: gpu0, containerEdits: {env: [A=B]}}]\n"

// TestOutputOfAnother: the spec of another kind is neither replaced, nor removed as a
// twin, nor removed for want of devices. Beside it there is room for ours.
func TestOutputOfAnother(t *testing.T) {
	dir := t.TempDir()
	file, twin := filepath.Join(dir, "gpu.yaml"), filepath.Join(dir, "gpu.json")
	put(t, file, gpuSpec, 0o644)
	for _, machine := range []string{"roce-lag", "none"} {
		for _, args := range [][]string{nil, {"--check"}} {
			generateTo(t, machine, file, args...).
				expect(t, exitUsage, `"`+file+`" is a spec of kind nvidia.com/gpu, not rdma.dev/hca`)
		}
	}
	generateTo(t, "roce-lag", twin).expect(t, exitOK, twin+" written")
	holds(t, dir, "gpu.json", "gpu.yaml")
	generateTo(t, "none", twin).expect(t, exitNothing, "removed: its devices are gone")
	// The file names of two kinds can be equal.
	put(t, filepath.Join(dir, "aa-bb-cc.json"), strings.Replace(gpuSpec, "nvidia.com/gpu", "aa-bb/cc", 1), 0o644)
	cdigen(t, "remove", "--from", dir, "--kind", "aa/bb-cc").expect(t, exitUsage, "is a spec of kind aa-bb/cc, not aa/bb-cc")
	generateTo(t, "roce-lag", dir, "--kind", "aa/bb-cc", "--output", "json").
		expect(t, exitUsage, "is a spec of kind aa-bb/cc, not aa/bb-cc")
	generateTo(t, "roce-lag", dir, "--kind", "aa/bb-cc").expect(t, exitOK, "aa-bb-cc.yaml written")
	cdigen(t, "remove", "--from", dir, "--kind", "aa/bb-cc").expect(t, exitOK, "removed")
	holds(t, dir, "aa-bb-cc.json", "gpu.yaml")
	if got, err := os.ReadFile(file); err != nil || string(got) != gpuSpec {
		t.Errorf("the file has %q, error %v", got, err)
	}
}

// TestRemoveAll: remove --all takes each spec of the kind in both directories, and no other file. It names those that
// run the hook.
func TestRemoveAll(t *testing.T) {
	static, dynamic := t.TempDir(), t.TempDir()
	generateTo(t, "roce-lag", static).expect(t, exitOK, "written")
	generateTo(t, "roce-lag", filepath.Join(static, "site.json")).expect(t, exitOK, "written")
	generateTo(t, "roce-lag", dynamic).expect(t, exitOK, "written")
	other := filepath.Join(dynamic, "other.yaml")
	put(t, other, "cdiVersion: 0.3.0\nkind: example.com/nic\ndevices: [{name: a, containerEdits: {hooks: "+
		"[{hookName: createRuntime, path: /usr/bin/rdma-hook}]}}]\n", 0o644)
	put(t, filepath.Join(dynamic, "gpu.yaml"), "cdiVersion: 0.3.0\nkind: nvidia.com/gpu\ndevices: []\n", 0o644)
	put(t, filepath.Join(dynamic, "notes.txt"), "kind: rdma.dev/hca", 0o644)
	put(t, filepath.Join(dynamic, "broken.json"), "{", 0o644)
	all := []string{"remove", "--all", "--spec-dir", static, "--spec-dir", dynamic, "--spec-dir", dynamic + "/absent"}
	dry := cdigen(t, append(all, "--dry-run")...)
	holds(t, static, "rdma.dev-hca.yaml", "site.json")
	r := cdigen(t, all...)
	test.Eq(t, strings.ReplaceAll(r.stderr, "removed the spec", "would remove the spec"), dry.stderr,
		test.Sprint("--dry-run prints"))
	r.expect(t, exitOK, "removed the spec site of kind rdma.dev/hca from "+static)
	r.expect(t, exitOK, "warning: \""+other+"\" stays, a spec of kind example.com/nic: without /usr/bin/rdma-hook")
	holds(t, static)
	holds(t, dynamic, "broken.json", "gpu.yaml", "notes.txt", "other.yaml")
	cdigen(t, all...).expect(t, exitNothing, "no spec of kind rdma.dev/hca in "+static)
	cdigen(t, append(all, "--from", static)...).expect(t, exitUsage, "--all looks in the directories of --spec-dir")
	cdigen(t, "remove", "--spec-dir", static).expect(t, exitUsage, "--spec-dir is for --all")
	put(t, filepath.Join(static, "file"), "", 0o644)
	cdigen(t, "remove", "--all", "--spec-dir", filepath.Join(static, "file")).expect(t, exitIO, "list CDI specs")
}

// TestRemoveFile: remove takes what generate --to takes.
func TestRemoveFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "my.yaml")
	generateTo(t, "roce-lag", file).expect(t, exitOK, "written")
	cdigen(t, "remove", "--from", filepath.Join(dir, "my.json")).expect(t, exitOK, "removed")
	cdigen(t, "remove", "--from", file).expect(t, exitNothing, "no spec of kind rdma.dev/hca")
	cdigen(t, "remove", "--from", filepath.Join(dir, "x.yml")).
		expect(t, exitUsage, "runtimes read only files that end in .json or .yaml")
	holds(t, dir)
}

// TestOutputOfTheChosen: what is left of an old spec when the chosen devices are not
// there any more, or the host has none at all.
func TestOutputOfTheChosen(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "rdma.dev-hca.yaml")
	names := func() string {
		data, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			return "gone"
		}
		var names []string
		for line := range strings.Lines(string(data)) {
			if name, ok := strings.CutPrefix(line, "  - name: "); ok {
				names = append(names, strings.TrimSpace(name))
			}
		}
		return strings.Join(names, " ")
	}
	for _, c := range []struct {
		machine, args string
		code          int
		says, want    string
	}{
		{"roce-sriov", "--device mlx5_0,mlx5_77", exitUsage, `no device matches "mlx5_77"`, "mlx5_bond_0"},
		{"roce-sriov", "--device mlx5_0,mlx5_77 --allow-absent", exitOK, "written", "mlx5_0"},
		{"roce-sriov", "--device mlx5_77 --allow-absent", exitNothing, "removed: its devices are gone", "gone"},
		{"roce-sriov", "--device [ --allow-absent", exitUsage, `match devices with "["`, "mlx5_bond_0"},
		{"roce-lag", "--exclude mlx5_bond_0", exitNotChosen, "of the devices that --device and --exclude leave",
			"mlx5_bond_0"},
		{"roce-lag", "--exclude mlx5_bond_0 --allow-absent", exitNothing, "removed: its devices are gone", "gone"},
		{"aws-p5", "--names netdev", exitNotChosen, "HCA rdmap79s0 cannot be listed: it has no network interface for " +
			"--names netdev", "mlx5_bond_0"},
		{"aws-p5", "--names netdev --allow-absent", exitNotChosen, "choose others with --names and --nodes", "mlx5_bond_0"},
		{"aws-p5", "--names netdev --device rdmap79s0 --allow-absent", exitNotChosen, "HCA rdmap79s0 cannot", "mlx5_bond_0"},
		{"aws-p5", "--nodes mad", exitNotChosen, "no HCA has an umad node", "mlx5_bond_0"},
		{"aws-p5", "--nodes cm", exitNotChosen, "load the rdma_ucm module", "mlx5_bond_0"},
		{"none", "--names netdev", exitNothing, "removed: its devices are gone", "gone"},
		{"none", "--exclude mlx5_1", exitNothing, "removed: its devices are gone", "gone"},
		{"none", "--device mlx5_1", exitNothing, "removed: its devices are gone", "gone"},
		{"misbehaving", "--device mlx5_7 --allow-absent", exitIO, "could not be read", "mlx5_bond_0"},
	} {
		generateTo(t, "roce-lag", dir, "--names", "ibdev", "--no-all").expect(t, exitOK, ": 1 device, CDI")
		args := append(strings.Fields(c.args), "--no-all")
		if !strings.Contains(c.args, "--names") {
			args = append(args, "--names", "ibdev")
		}
		generateTo(t, c.machine, dir, args...).expect(t, c.code, c.says)
		test.Eq(t, c.want, names(), test.Sprintf("%s %s: the file", c.machine, c.args))
	}
}

// TestCheckSeesAll: --check says of every file that write would change that it does not
// fit, and why; and fails as write does where that leaves the file alone.
func TestCheckSeesAll(t *testing.T) {
	dir := t.TempDir()
	file, twin := filepath.Join(dir, "rdma.dev-hca.yaml"), filepath.Join(dir, "rdma.dev-hca.json")
	for _, c := range []struct {
		name, machine, args string
		plant               func() error
		code                int
		says                string
		stdout              string // a part of it
	}{
		{"fits", "roce-lag", "", nil, exitOK, file + " fits the host", ""},
		{"mode", "roce-lag", "", func() error { return os.Chmod(file, 0o600) }, exitDrift,
			"rdma.dev-hca.yaml has mode 0600 instead of 0644", ""},
		{"twin", "roce-lag", "", func() error { return os.WriteFile(twin, []byte(oldSpec), 0o644) }, exitDrift,
			twin + " should not exist", "--- " + twin + "\n"},
		{"other format", "roce-lag", "--output json", nil, exitDrift, twin + " is missing, " + file + " should not exist",
			"+++ host\n"},
		{"of other days, for no device", "none", "", func() error { return os.WriteFile(file, []byte(oldSpec), 0o644) },
			exitDrift, "should not exist", "--- " + file + "\n"},
		{"devices left out", "misbehaving", "", func() error { generateTo(t, "misbehaving", dir); return nil }, exitPartial,
			"fits the host", ""},
		{"unreadable", "misbehaving", "--device mlx5_7", nil, exitIO, "the RDMA devices could not be read", ""},
		{"not chosen", "roce-lag", "--exclude *", nil, exitNotChosen, "of the devices that --device and --exclude leave", ""},
		{"exclusive", "soft-pci", "", nil, exitExclusive, "exclusive network namespace mode", ""},
		{"a directory", "roce-lag", "", func() error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o755)) },
			exitUsage, "is a directory", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			must.NoError(t, errors.Join(os.RemoveAll(file), os.RemoveAll(twin)))
			generateTo(t, "roce-lag", dir).expect(t, exitOK, "written")
			if c.plant != nil {
				must.NoError(t, c.plant())
			}
			before := listing(t, dir)
			r := generateTo(t, c.machine, dir, append(strings.Fields(c.args), "--check")...)
			r.expect(t, c.code, c.says)
			if !strings.Contains(r.stdout, c.stdout) || c.stdout == "" && r.stdout != "" {
				t.Errorf("standard output %q; want %q", r.stdout, c.stdout)
			}
			if after := listing(t, dir); strings.Join(before, "\n") != strings.Join(after, "\n") {
				t.Errorf("--check wrote: %s, before %s", after, before)
			}
		})
	}
}

// program runs the program as a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return programContext(t.Context(), t, args...)
}

func programContext(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must.NoError(t, err)
	cmd := exec.CommandContext(ctx, self, args...)
	// Programs with the race detector sleep for a second before they end.
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// TestTwoProcesses: whatever two processes write at once, one whole file is left.
func TestTwoProcesses(t *testing.T) {
	one, two := []string{"--host-root", host(t, "roce-lag")}, []string{"--host-root", host(t, "hgx-h100")}
	for _, formats := range [][]string{{"yaml", "yaml"}, {"yaml", "json"}} {
		for range 20 {
			dir := filepath.Join(t.TempDir(), "cdi")
			var group sync.WaitGroup
			for i, machine := range [][]string{one, two} {
				cmd := program(t, append(machine, "generate", "--no-hook", "--to", dir, "--output", formats[i])...)
				group.Go(func() {
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Errorf("%v: %s", err, out)
					}
				})
			}
			group.Wait()
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 {
				t.Fatalf("files %v, error %v; want one", entries, err)
			}
			cdigen(t, "validate", filepath.Join(dir, entries[0].Name())).expect(t, exitOK, "")
		}
	}
}

// TestWatchRepairs: what others do to the file, and a device that is gone although a
// flag names it, does not end the program.
func TestWatchRepairs(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	file, twin := filepath.Join(dir, "rdma.dev-hca.yaml"), filepath.Join(dir, "rdma.dev-hca.json")
	become := func(machine string) {
		t.Helper()
		next := filepath.Join(root, "next")
		if err := errors.Join(os.Symlink(filepath.Join(host(t, machine), "sys"), next),
			os.Rename(next, filepath.Join(root, "sys"))); err != nil {
			t.Fatal(err)
		}
	}
	feed := events{make(chan []byte)}
	old := openUevents
	openUevents = func() (io.ReadCloser, error) { return feed, nil }
	defer func() { openUevents = old }()

	become("roce-lag") // whose HCA is not the one
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int)
	var stderr bytes.Buffer
	go func() {
		done <- run(ctx, []string{"watch", "--no-hook", "--host-root", root, "--to", dir, "--device", "mlx5_9"},
			io.Discard, &stderr)
	}()
	has := func() bool {
		data, err := os.ReadFile(file)
		info, err2 := os.Stat(file)
		_, err3 := os.Stat(twin)
		return errors.Join(err, err2) == nil && strings.Contains(string(data), "name: mlx5_9\n") &&
			info.Mode().Perm() == 0o644 && err3 != nil
	}
	for _, step := range []struct {
		name string
		do   func()
		want func() bool
	}{
		{"the device comes", func() { become("roce-sriov") }, has},
		{"mode", func() { os.Chmod(file, 0o600) }, has},
		{"twin", func() { put(t, twin, oldSpec, 0o644) }, has},
		{"the device goes, others stay", func() { become("roce-lag") }, func() bool { return !has() }},
		{"the device comes again", func() { become("roce-sriov") }, has},
	} {
		step.do()
		feed.messages <- []byte("add@/devices/x\x00SUBSYSTEM=infiniband\x00")
		await(t, step.name, step.want)
	}
	cancel()
	close(feed.messages)
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
}

// TestWatchIsReady: systemd hears of it when the first spec is there, and not before.
func TestWatchIsReady(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	must.NoError(t, err)
	defer conn.Close()
	cmd := program(t, "watch", "--no-hook", "--host-root", host(t, "roce-lag"), "--to", filepath.Join(dir, "cdi"))
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+socket)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	must.NoError(t, cmd.Start())
	buf := make([]byte, 64)
	must.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	n, err := conn.Read(buf)
	if err != nil || string(buf[:n]) != "READY=1" {
		t.Errorf("systemd hears %q, error %v", buf[:n], err)
	}
	holds(t, filepath.Join(dir, "cdi"), "rdma.dev-hca.yaml")
	if err := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
		t.Errorf("%v\n%s", err, &stderr)
	}
	// A socket that nobody listens to is said, and no reason to end.
	test.ErrorContains(t, notifyReady(filepath.Join(dir, "absent")), "tell systemd that the spec is there",
		test.Sprint("no socket"))
}
