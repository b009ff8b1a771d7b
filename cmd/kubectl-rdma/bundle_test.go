package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
)

// unpacked returns the files of an archive.
func unpacked(t *testing.T, data string) map[string]string {
	t.Helper()
	zipped, err := gzip.NewReader(strings.NewReader(data))
	must.NoError(t, err, must.Sprint("standard output is no archive"))
	files := map[string]string{}
	for r := tar.NewReader(zipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must.NoError(t, err)
		body, err := io.ReadAll(r)
		must.NoError(t, err)
		files[strings.TrimPrefix(header.Name, "rdma-bundle/")] = string(body)
	}
}

// TestBundle: the list of files is printed first. The archive has the answers of the API server and of the drivers. A
// driver without an answer is named, and the archive has the rest.
func TestBundle(t *testing.T) {
	d := newDrivers(t)
	f := fleet.New(t)
	f.Node("node1", "roce-sriov", "")
	f.Node("node2", "roce-sriov", "")
	drain := f.Rule("rdma-drain.node.node2", "rdma.dev", "rdma.dev/drain", resourceapi.DeviceTaintEffectNoSchedule)
	drain.Labels, drain.Spec.DeviceSelector.Pool = map[string]string{"rdma.dev/drain": "node"}, new("node2")
	drain.Annotations = map[string]string{"rdma.dev/drain-reason": "ticket 4711 of Globex",
		"rdma.dev/drain-author": "https://sso.globex.example/realms/" + strings.Repeat("x", 100) + "#jane"}
	s := newSession(t, f)
	d.say("roce-sriov", "", 0, "")
	r := s.run("bundle")
	must.Eq(t, exitcode.OK, r.code, must.Sprintf("%+v", r))
	files := unpacked(t, r.stdout)
	for _, name := range []string{"README", "status.txt", "nodes.json", "slices.json", "claims.json", "events.json",
		"drivers/1-node-1/log.txt", "drivers/1-node-1/status.json", "drivers/2-node-2/log.txt"} {
		if _, has := files[name]; !has || name != "README" && !strings.Contains(r.stderr, name) {
			t.Errorf("%s is missing in the archive or in its list:\n%s", name, r.stderr)
		}
	}
	status := strings.ToLower(files["status.txt"])
	if strings.Contains(status, "globex") || !strings.Contains(status, "(hidden)") {
		t.Errorf("the status says who drained a node, and why:\n%s", status)
	}
	if files["README"] != r.stderr || strings.Contains(r.stderr, "missing: ") {
		t.Errorf("README %q, said %q", files["README"], r.stderr)
	}
	if !strings.Contains(files["slices.json"], "pci-0000-3b-00-0") || !strings.Contains(files["slices.json"], "(node 2)") {
		t.Errorf("slices are %s", files["slices.json"])
	}
	asked := strings.Split(strings.TrimSpace(d.read("asked")), "\n")
	const logs = " logs --namespace=dra-driver-rdma dra-driver-rdma-node1 --container=driver --previous=false "
	const page = " exec -i --quiet --namespace=dra-driver-rdma dra-driver-rdma-node1 --container=driver -- dra-driver status --output=json"
	for _, want := range []string{logs, page} {
		if len(asked) != 4 || !slices.ContainsFunc(asked, func(a string) bool { return strings.Contains(a, want) }) {
			t.Errorf("kubectl gets %q, want %q", asked, want)
		}
	}

	d.say("", "", 1, "Error from server (Forbidden): pods \"dra-driver-rdma-node2\" is forbidden\n")
	r = s.run("bundle", "node2")
	files = unpacked(t, r.stdout)
	const missing = "missing: the log of the driver of node (node 2): Error from server (Forbidden)"
	if r.code != exitcode.OK || !strings.Contains(r.stderr, missing) || files["slices.json"] == "" ||
		files["drivers/1-node-2/status.json"] != "" {
		t.Errorf("without rights: code %d, said %q, files %v", r.code, r.stderr, files)
	}
	if r := s.run("bundle", "node9"); r.code != exitcode.Failed || r.stdout != "" {
		t.Errorf("of no node: %+v", r)
	}
}
