package product

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// hotNetdev is a network device for RDMA devices that come and go.
const hotNetdev = "hot0"

// Entries of the spec: the devices of the guest, and a node.
var (
	both   = []string{"name: rxe0", "name: rxe1"}
	rdmaCM = "path: /dev/infiniband/rdma_cm"
)

// watch plugs devices in and out while cdi-gen watch keeps one file, and checks with
// generate --check another one that nobody keeps.
func watch(t *testing.T) {
	install(t)
	inside.Must(t, "ip", "link", "add", hotNetdev, "type", "dummy")
	inside.Must(t, "ip", "link", "set", hotNetdev, "up")
	t.Cleanup(func() { inside.Must(t, "ip", "link", "del", hotNetdev) })
	left := t.TempDir()
	inside.Must(t, "cdi-gen", "generate", "--to", left)
	w := startWatch(t)
	unchanged := strangers(t, w.dir)
	checks(t, left, 0, "fits the host")

	w.follow(t, "plug in", []string{"name: rxe2", "name: soft-rxe-hot0"}, nil, "rdma", "link", "add", "rxe2", "type", "rxe", "netdev", hotNetdev)
	checks(t, w.dir, 0, "fits the host")
	checks(t, left, 7, "\n+  - name: rxe2\n", "\n+        - path: /dev/infiniband/"+inside.Node(t, "infiniband_verbs", "rxe2")+"\n", "does not fit the host")

	w.follow(t, "rename", []string{"name: foo", "name: soft-rxe-hot0"}, []string{"name: rxe2"}, "rdma", "dev", "set", "rxe2", "name", "foo")
	checks(t, left, 7, "\n+  - name: foo\n")

	w.follow(t, "unplug", both, []string{"name: foo", "name: soft-rxe-hot0"}, "rdma", "link", "del", "foo")
	checks(t, left, 0, "fits the host")

	w.follow(t, "unload rdma_ucm", both, []string{rdmaCM}, "rmmod", "rdma_ucm")
	checks(t, left, 7, "\n-    - "+rdmaCM+"\n")
	w.follow(t, "load rdma_ucm", slices.Concat(both, []string{rdmaCM}), nil, "modprobe", "rdma_ucm")
	checks(t, left, 0, "fits the host")

	w.follow(t, "unplug the first of two", both[:1], both[1:], "rdma", "link", "del", "rxe1")
	checks(t, left, 7, "\n-  - name: rxe1\n")
	w.follow(t, "unplug the last", nil, nil, "rdma", "link", "del", "rxe0")
	checks(t, left, 7, "\n-  - name: rxe0\n")
	checks(t, w.dir, 0, "fits the host")
	unchanged()

	w.follow(t, "plug in the first", both[:1], both[1:], "rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "eth0")
	w.follow(t, "plug in the second", both, nil, "rdma", "link", "add", "rxe1", "type", "rxe", "netdev", "dummy0")
	unchanged()
	w.stop(t)
}

// watcher is a running cdi-gen watch and the directory that it writes to.
type watcher struct {
	cmd *exec.Cmd
	log bytes.Buffer
	dir string
}

func startWatch(t *testing.T) *watcher {
	t.Helper()
	w := &watcher{dir: t.TempDir()}
	w.cmd = exec.Command("cdi-gen", "watch", "--to", w.dir)
	w.cmd.Stdout, w.cmd.Stderr = &w.log, &w.log
	must.NoError(t, w.cmd.Start())
	t.Cleanup(func() {
		w.cmd.Process.Kill() // an error if it has ended, as it should
		w.cmd.Wait()
		t.Logf("cdi-gen watch:\n%s", &w.log)
	})
	inside.Eventually(t, "the first spec", time.Minute, func() error { return w.has(both, nil) })
	return w
}

// has tells whether the file has the entries that it should and none that it should not;
// without any wanted, whether there is no file.
func (w *watcher) has(want, not []string) error {
	data, err := os.ReadFile(filepath.Join(w.dir, filepath.Base(specFile)))
	switch {
	case want == nil && errors.Is(err, fs.ErrNotExist):
		return nil
	case want == nil && err == nil:
		return fmt.Errorf("the file is there:\n%s", data)
	case err != nil:
		return err
	}
	has := func(entry string) bool { return bytes.Contains(data, []byte("- "+entry+"\n")) }
	for _, entry := range want {
		if !has(entry) {
			return fmt.Errorf("%q is missing:\n%s", entry, data)
		}
	}
	for _, entry := range not {
		if has(entry) {
			return fmt.Errorf("%q is still there:\n%s", entry, data)
		}
	}
	return nil
}

// follow runs a command that changes the devices and waits until the file has followed.
// The promise is a second; an emulated processor that others share may break it, so the
// time is reported and only a minute is a failure.
func (w *watcher) follow(t *testing.T, what string, want, not []string, argv ...string) {
	t.Helper()
	inside.Must(t, argv...)
	took := inside.Eventually(t, what, time.Minute, func() error { return w.has(want, not) })
	remark := ""
	if took > time.Second {
		remark = ": more than a second"
	}
	t.Logf("%s: followed after %d ms%s (%s)", what, took.Milliseconds(), remark, strings.Join(argv, " "))
}

// stop ends the watcher as systemd does.
func (w *watcher) stop(t *testing.T) {
	t.Helper()
	must.NoError(t, w.cmd.Process.Signal(syscall.SIGTERM))
	test.NoError(t, w.cmd.Wait(), test.Sprint("cdi-gen watch after SIGTERM"))
	test.NoError(t, w.has(both, nil), test.Sprint("after the end of cdi-gen watch"))
}

// strangers puts files of others into a directory and returns a function that asserts
// that they are as they were.
func strangers(t *testing.T, dir string) (unchanged func()) {
	t.Helper()
	files := map[string]string{
		"vendor.com-hca.yaml":         "cdiVersion: 0.3.0\nkind: vendor.com/hca\ndevices: [{name: rxe0, containerEdits: {env: [A=B]}}]\n",
		"rdma.dev-claim_0815.json":    `{"cdiVersion": "0.3.0", "kind": "rdma.dev/claim", "devices": [{"name": "a", "containerEdits": {"env": ["A=B"]}}]}`,
		"rdma.dev-hca.yaml.dpkg-dist": "not a spec\n",
		"rdma.dev-hca.txt":            "a note\n",
	}
	for name, text := range files {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return func() {
		t.Helper()
		for name, text := range files {
			if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != text {
				t.Errorf("the file of another, %s: %q, %v", name, data, err)
			}
		}
	}
}

// checks runs generate --check on a directory.
func checks(t *testing.T, dir string, code int, words ...string) {
	t.Helper()
	r := inside.Run("cdi-gen", "generate", "--check", "--to", dir)
	test.Eq(t, code, r.Code, test.Sprintf("generate --check: status %d, want %d\n%s", r.Code, code, r.Out))
	inside.Wants(t, "generate --check", r.Out, words...)
}
