package invariants_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/invariants"
)

const (
	hca0 = "pci-0000-19-00-0" // uverbs0 of hgx-h100
	hca1 = "pci-0000-29-00-0" // uverbs1
)

// files are the record and the spec of a claim, as a driver writes them.
type files struct {
	claim  *resourceapi.ResourceClaim
	uverbs string // in the spec, "" for no spec
	record string // devices of the record, "" for none
}

func alone(device string) string { return fmt.Sprintf(`{"device": %q}`, device) }

func share(device, id string) string {
	return fmt.Sprintf(`{"device": "shared-%s", "shareID": %q}`, device, id)
}

func (f files) write(t *testing.T, n *drivertest.Worker) {
	t.Helper()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	must.NoError(t, err)
	if f.record != "" {
		put(t, filepath.Join(n.RecordDir(), string(f.claim.UID)+".json"),
			fmt.Sprintf(`{"version": 1, "bootID": %q, "claim": {"uid": %q, "devices": [%s]}}`, strings.TrimSpace(string(boot)), f.claim.UID, f.record))
	}
	if f.uverbs != "" {
		put(t, drivertest.SpecPath(n.CDIDir, f.claim),
			fmt.Sprintf(`{"cdiVersion": "0.3.0", "kind": "rdma.dev/claim", "devices": [{"name": "d-%s", "containerEdits": {"deviceNodes": [{"path": "/dev/infiniband/%s"}]}}]}`, f.claim.UID, f.uverbs))
	}
}

func put(t *testing.T, path, content string) {
	t.Helper()
	must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

// TestInvariants plants each violation, and none.
func TestInvariants(t *testing.T) {
	a, b := drivertest.Claim(1, hca0), drivertest.Claim(2, hca1)
	both := invariants.Claims{Prepared: []*resourceapi.ResourceClaim{a}, Open: []*resourceapi.ResourceClaim{b}}
	for name, tc := range map[string]struct {
		files  []files
		spoil  func(t *testing.T, n *drivertest.Worker)
		claims invariants.Claims
		always string // what is wrong at any time, "" for nothing
		atRest string // and besides at rest
	}{
		"nothing":            {},
		"two claims":         {files: []files{{a, "uverbs0", alone(hca0)}, {b, "uverbs1", alone(hca1)}}, claims: both},
		"open, without file": {files: []files{{a, "uverbs0", alone(hca0)}}, claims: both},
		"shares":             {files: []files{{a, "uverbs0", share(hca0, "1")}, {b, "uverbs0", share(hca0, "2")}}, claims: both},
		"monitor":            {files: []files{{a, "uverbs0", alone(hca0)}, {b, "uverbs0", `{"device": "` + hca0 + `", "adminAccess": true}`}}, claims: both},
		"twice": {files: []files{{a, "uverbs0", alone(hca0)}, {b, "uverbs0", alone(hca0)}}, claims: both,
			always: "HCA " + hca0 + " is in the records of"},
		"share beside alone": {files: []files{{a, "uverbs0", alone(hca0)}, {b, "uverbs0", share(hca0, "1")}}, claims: both,
			always: "HCA " + hca0 + " is in the records of"},
		"another's node":       {files: []files{{a, "uverbs1", alone(hca0)}}, claims: both, always: "has uverbs1, which is HCA 0000:29:00.0", atRest: "its HCAs [" + hca0 + "] have [uverbs0]"},
		"lost record":          {claims: both, atRest: "claim claim-1 was prepared, and has no record"},
		"no spec":              {files: []files{{a, "", alone(hca0)}}, claims: both, atRest: "has a record and no spec"},
		"no record":            {files: []files{{a, "uverbs0", alone(hca0)}, {b, "uverbs1", ""}}, claims: both, atRest: "spec of claim " + string(b.UID) + " has no record"},
		"not ended":            {files: []files{{a, "uverbs0", alone(hca0)}}, atRest: "is of no claim that the kubelet asked for"},
		"spec of what is away": {files: []files{{a, "uverbs99", alone("pci-0000-ff-00-0")}}, claims: both, always: "", atRest: "and not all of its HCAs"},
		"broken spec": {spoil: func(t *testing.T, n *drivertest.Worker) { put(t, drivertest.SpecPath(n.CDIDir, a), "{") },
			always: "unexpected end of JSON input"},
		"broken record": {spoil: func(t *testing.T, n *drivertest.Worker) { put(t, filepath.Join(n.RecordDir(), "x.json"), "{}") },
			always: `x.json of claim ""`},
		"another's file": {spoil: func(t *testing.T, n *drivertest.Worker) { put(t, filepath.Join(n.CDIDir, "core.1"), "") },
			always: "is no spec of a claim"},
		"file in the making": {spoil: func(t *testing.T, n *drivertest.Worker) { put(t, filepath.Join(n.CDIDir, ".rdma.dev-1.tmp"), "{") }},
		"missing node": {files: []files{{a, "uverbs0", alone(hca0)}}, claims: both, atRest: "and not all of its HCAs",
			spoil: func(t *testing.T, n *drivertest.Worker) {
				must.NoError(t, os.Remove(n.Node("uverbs0")))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			n := drivertest.NewWorker(t, "hgx-h100")
			for _, f := range tc.files {
				f.write(t, n)
			}
			if tc.spoil != nil {
				tc.spoil(t, n)
			}
			check(t, "always", invariants.Always(n), tc.always)
			if tc.atRest == "" {
				tc.atRest = tc.always
			}
			check(t, "at rest", invariants.AtRest(n, tc.claims), tc.atRest)
		})
	}
}

func check(t *testing.T, when string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: error is %v, want %q", when, err, want)
	}
}
