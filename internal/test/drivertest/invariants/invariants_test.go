package invariants_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/tools/txtar"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/invariants"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// TestInvariants plants each violation, and none. A case is an archive with what the kubelet knows of claims by their
// numbers, with the records and specs of the node, and with the nodes that /dev lacks. BOOT stands for the ID of this
// boot. What is wrong at any time, and at rest, comes last.
func TestInvariants(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.txtar")
	must.NoError(t, err)
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			must.NoError(t, err)
			n := drivertest.NewWorker(t, "hgx-h100")
			var known invariants.Claims
			for i, f := range a.Files {
				dir, name := path.Split(f.Name)
				text := strings.ReplaceAll(string(f.Data), "BOOT", drivertest.BootID(t))
				switch dir + name {
				case "kubelet":
					known = claims(t, text)
				case "records/" + name:
					fixture.WriteFiles(t, n.RecordDir(), map[string]string{name: text})
				case "specs/" + name:
					fixture.WriteFiles(t, n.CDIDir, map[string]string{name: text})
				case "missing/" + name:
					must.NoError(t, os.Remove(n.Node(name)))
				case "always":
					a.Files[i].Data = wrong(n, invariants.Always(n))
				case "at rest":
					a.Files[i].Data = wrong(n, invariants.AtRest(n, known))
				default:
					t.Fatalf("%s: no part of a case", f.Name)
				}
			}
			golden.File(t, file, txtar.Format(a))
		})
	}
}

// claims reads lines such as "prepared 1" and "open 2".
func claims(t *testing.T, text string) (known invariants.Claims) {
	t.Helper()
	for line := range strings.Lines(text) {
		var state string
		var number int
		_, err := fmt.Sscan(line, &state, &number)
		must.NoError(t, err)
		into := map[string]*[]*resourceapi.ResourceClaim{"prepared": &known.Prepared, "open": &known.Open}[state]
		*into = append(*into, drivertest.Claim(number))
	}
	return known
}

// wrong are the lines of an error in order, without the directories of the node.
func wrong(n *drivertest.Worker, err error) []byte {
	if err == nil {
		return nil
	}
	text := strings.NewReplacer(n.CDIDir, "specs", n.RecordDir(), "records").Replace(err.Error())
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return []byte(strings.Join(lines, "\n") + "\n")
}
