package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostconfig"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

const header = "apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\n"

// parse adds the first two lines to text, and reads the result as a file.
func parse(t testing.TB, text string) *policy.Config {
	t.Helper()
	c, err := policy.Parse([]byte(header + text))
	must.NoError(t, err, must.Sprintf("%v in\n%s", err, text))
	return c
}

// TestParseErrors compares what is said of bad files: each error names the line and
// the field.
func TestParseErrors(t *testing.T) {
	for _, file := range badFiles(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			must.NoError(t, err)
			c, err := policy.Parse(data)
			must.True(t, err != nil && c == nil, must.Sprintf("the file is taken: %v, %v", c, err))
			golden.Bytes(t, filepath.Join("bad", name+".txt"), []byte(err.Error()+"\n"))
		})
	}
}

// TestManyProblems: ten are reported, and no file makes a message that nobody reads or memory that the driver does
// not have.
func TestManyProblems(t *testing.T) {
	for name, text := range map[string]string{
		"one key":            header + strings.Repeat("rules: []\n", 1500),
		"unknown fields":     header + "rules:\n" + strings.Repeat("- {nam: x}\n", 3000),
		"rules without name": header + "rules:\n" + strings.Repeat("- {}\n", 3000),
		"bad mounts":         header + "mounts:\n" + strings.Repeat("- {hostPath: x}\n", 3000),
		"a long value":       header + "rules:\n- {name: x, publish: " + strings.Repeat("x", 100_000) + "}\n",
		"bad expressions": header + "rules:\n- name: x\n  selectors:\n" +
			strings.Repeat("  - cel: {expression: '"+strings.Repeat("((!", 1000)+"'}\n", 30),
	} {
		_, err := policy.Parse([]byte(text))
		if err == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		if lines := strings.Count(err.Error(), "\nline ") + 1; lines > 10 || len(err.Error()) > 12_000 {
			t.Errorf("%s: %d problems are reported in %d bytes", name, lines, len(err.Error()))
		}
	}
}

// TestRefused: lines that are refused below the header, and why.
func TestRefused(t *testing.T) {
	golden.Cases(t, "refused", func(t *testing.T, text string) string {
		_, err := policy.Parse([]byte(header + text))
		must.Error(t, err)
		return err.Error()
	})
}

// The part that every RDMA container gets is that of cdi-gen's file.
func TestContainer(t *testing.T) {
	c := parse(t, `
memlock: 4Gi
env: {NCCL_DEBUG: WARN}
mounts: [{hostPath: /opt/site}]
ncclTopology: /opt/topo.xml
`)
	want := hostconfig.Container{
		Memlock: "4Gi", Env: map[string]string{"NCCL_DEBUG": "WARN"},
		Mounts: []hostconfig.Mount{{HostPath: "/opt/site"}}, NCCLTopology: "/opt/topo.xml",
	}
	got := c.Container()
	test.Eq(t, want, got)
	got.Env["X"], got.Mounts[0].HostPath = "y", "/elsewhere"
	test.Eq(t, want, c.Container(), test.Sprint("the configuration was changed from outside"))
}

// A file may use what YAML has: anchors, flow style, comments, null.
func TestYAML(t *testing.T) {
	c := parse(t, `
partitioning: ~
rules:
- name: a   # the first
  selectors: &roce
  - cel: {expression: 'device.attributes["rdma.dev"].protocol == "roce"'}
  publish: shared
  handles: 4096
  objects: 1M
- {name: b, publish: none}
groups: [{name: all, selectors: *roce, shares: null}]
`)
	test.Eq(t, "a", c.Apply(snapshot(t, "hgx-h100"), policy.State{}).Decisions[0].Rule, test.Sprint("rule"))
}

// FuzzParse: whatever is taken can be applied, and what comes out is valid.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", sharedPolicy, bothPolicy, cardPolicy, guardedGroupPolicy,
		rulesPolicy, failingPolicy} {
		f.Add(header + text)
	}
	for _, file := range badFiles(f) {
		data, err := os.ReadFile(file)
		must.NoError(f, err)
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := policy.Parse([]byte(text))
		if err != nil {
			must.True(t, c == nil && err.Error() != "", must.Sprintf("a file that is refused gives %v, %q", c, err))
			return
		}
		for _, machine := range []string{"roce-sriov", "misbehaving"} {
			for _, state := range []policy.State{{}, {NoCounters: true, NoConsumable: true}} {
				valid(t, c.Apply(snapshot(t, machine), state).Slices())
			}
		}
	})
}

func badFiles(t testing.TB) []string {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	must.True(t, err == nil && len(files) != 0, must.Sprintf("no bad files: %v", err))
	return files
}
