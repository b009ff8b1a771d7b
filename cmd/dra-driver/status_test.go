package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/prometheus"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
)

const statusUID = "11111111-0000-4000-8000-000000000001"

// statusOf runs dra-driver status against a node's driver.
func statusOf(t *testing.T, n *drivertest.Node, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	args = append([]string{"status", "--kubelet-dir", n.Dir}, args...)
	env := func(name string) string { return map[string]string{"POD_UID": statusUID}[name] }
	code = run(t.Context(), args, env, &out, &errs)
	return code, out.String(), errs.String()
}

// TestStatus: one page, over the socket and over HTTP. A driver that was killed leaves the
// socket to its next container, and one that ends takes it along.
func TestStatus(t *testing.T) {
	n := drivertest.NewNode(t, "soft")
	n.Start(t, statusUID).Kill()
	address := prometheus.FreeAddress(t)
	driver := drivertest.StartProcess(t, append(n.Args(t, statusUID), "--metrics-bind-address", address)...)
	drivertest.Eventually(t, func() error {
		if code, table, stderr := statusOf(t, n); code != exitcode.OK || !strings.HasPrefix(table, drivertest.NodeName+": ") {
			return fmt.Errorf("exit code %d: %s%s", code, table, stderr)
		}
		return nil
	})
	_, text, _ := statusOf(t, n, "-o", "json")
	var overSocket, overHTTP nodestatus.Status
	must.NoError(t, json.Unmarshal([]byte(text), &overSocket))
	drivertest.Eventually(t, func() error {
		resp, err := http.Get("http://" + address + "/status?o=json")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return json.NewDecoder(resp.Body).Decode(&overHTTP)
	})
	if overSocket.Node != drivertest.NodeName || len(overSocket.HCAs) == 0 || len(overHTTP.HCAs) != len(overSocket.HCAs) ||
		!overHTTP.Started.Equal(overSocket.Started) {
		t.Errorf("over the socket %+v, over HTTP %+v", overSocket, overHTTP)
	}
	test.Eq(t, exitcode.OK, driver.Terminate(), test.Sprint("exit code of the driver"))
	if left, _ := filepath.Glob(filepath.Join(n.PluginDir(), "status*")); left != nil {
		t.Errorf("left are %q", left)
	}
	code, _, stderr := statusOf(t, n)
	if code != exitcode.Failed || !strings.Contains(stderr, "is it running") {
		t.Errorf("without a driver: exit code %d, %s", code, stderr)
	}
}

// TestStatusEndless: a status page is read up to a size.
func TestStatusEndless(t *testing.T) {
	socket := filepath.Join(drivertest.TempDir(t), "status.sock")
	listener, err := net.Listen("unix", socket)
	must.NoError(t, err)
	sent, ended := 0, make(chan struct{})
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(ended)
		_, err := io.WriteString(w, `{"node": "`)
		for chunk := strings.Repeat("a", 1<<20); err == nil && sent < 4*maxPage; sent += len(chunk) {
			_, err = io.WriteString(w, chunk)
		}
	}))
	t.Cleanup(func() { listener.Close() })
	_, err = readPage(t.Context(), socket, "it")
	test.ErrorContains(t, err, "read it in the status of the driver")
	<-ended
	test.Less(t, 2*maxPage, sent, test.Sprint("bytes that were read"))
}

// TestStatusNoSocket: a driver whose socket cannot be made works all the same.
func TestStatusNoSocket(t *testing.T) {
	n := drivertest.NewNode(t, "soft")
	must.NoError(t, os.MkdirAll(filepath.Join(n.PluginDir(), "status-"+statusUID+".sock"), 0o750))
	n.Start(t, statusUID)
	if code, _, stderr := statusOf(t, n); code != exitcode.Failed {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestStatusUsage(t *testing.T) {
	var stderr strings.Builder
	code := run(t.Context(), []string{"status", "-o", "xml"}, func(string) string { return "" }, io.Discard, &stderr)
	if code != exitcode.Usage || !strings.Contains(stderr.String(), "want one of [table json yaml]") {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
}
