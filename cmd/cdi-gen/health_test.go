package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// TestHealthCheck: the script of docs/slurm.md drains a node for a fault of its HCAs, and for nothing else. It resumes
// what it drained, and nothing else.
func TestHealthCheck(t *testing.T) {
	needs.Program(t, "jq", "apt-get install jq")
	page, err := os.ReadFile("../../docs/slurm.md")
	must.NoError(t, err)
	_, script, found := strings.Cut(string(page), "   ```sh\n   #!/bin/sh\n")
	script, _, _ = strings.Cut(script, "```")
	must.True(t, found, must.Sprint("docs/slurm.md has no script"))
	findings, err := os.ReadFile("../../docs/doctor.md")
	must.NoError(t, err)
	ids := regexp.MustCompile(`"([a-z]+-[a-z-]+)"`).FindAllStringSubmatch(script, -1)
	must.GreaterEq(t, 10, len(ids))
	for _, id := range ids {
		test.StrContains(t, string(findings), "\n| `"+id[1]+"` |", test.Sprint("docs/doctor.md"))
	}
	for name, tt := range map[string]struct {
		state   string // of the host's port
		has     string // a finding of the host
		doctor  string // in the place of cdi-gen on such a host
		slurm   string // the node's reason and state in Slurm, idle if empty
		drained string // for these findings
		resumed bool
		code    int
	}{
		"healthy, and no spec": {state: "4: ACTIVE", has: "spec-none"},
		"healthy again":        {state: "4: ACTIVE", has: "spec-none", slurm: "RDMA: port-init|draining", resumed: true},
		"healthy again, and drained by an administrator": {state: "4: ACTIVE", has: "spec-none",
			slurm: "cable 17|drained"},
		"a node that a group may open": {doctor: `echo '{"findings": [
			{"id": "node-mode", "severity": "warning"}, {"id": "container-unusable", "severity": "warning"},
			{"id": "port-down", "severity": "acknowledged"}]}'; exit 10`},
		"a port down": {state: "1: DOWN", has: "port-down", drained: "no-active-port port-down", code: 1},
		"a node of umad, and a spec": {doctor: `echo '{"findings": [
			{"id": "node-missing", "severity": "warning"}, {"id": "spec-stale", "severity": "error"}]}'; exit 11`},
		"a node of verbs": {doctor: `echo '{"findings": [{"id": "node-missing", "severity": "error"}]}'; exit 11`,
			drained: "node-missing", code: 1},
		"drained by an administrator": {doctor: `echo '{"findings": [{"id": "port-down", "severity": "warning"}]}'; exit 10`,
			slurm: "cable 17|drained*", code: 1},
		"drained by this script": {doctor: `echo '{"findings": [{"id": "port-down", "severity": "warning"}]}'; exit 10`,
			slurm: "RDMA: port-down|drained", code: 1},
		"two faults": {doctor: `echo '{"findings": [{"id": "hca-lost", "severity": "warning"},
			{"id": "no-active-port", "severity": "error"}]}'; exit 11`, drained: "hca-lost no-active-port", code: 1},
		"no answer":    {doctor: "exit 1", code: 2},
		"not readable": {doctor: "echo broken; exit 10", code: 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir, root := t.TempDir(), t.TempDir()
			doctor := tt.doctor
			if doctor == "" {
				copyHost(t, "roce-lag", root)
				put(t, filepath.Join(root, "sys/class/infiniband/mlx5_bond_0/ports/1/state"), tt.state+"\n", 0o644)
				program, err := os.Executable()
				must.NoError(t, err)
				doctor = asProgram + `=1 exec ` + program + ` "$@" --host-root ` + root
				r := cdigen(t, "doctor", "--host-root", root)
				must.StrContains(t, r.stdout, tt.has)
			}
			put(t, filepath.Join(dir, "rdma-health"), "#!/bin/sh\n"+script, 0o755)
			put(t, filepath.Join(dir, "cdi-gen"), "#!/bin/sh\n"+doctor+"\n", 0o755)
			put(t, filepath.Join(dir, "scontrol"), "#!/bin/sh\necho \"$1 $3 $4\" >"+dir+"/drained\n", 0o755)
			put(t, filepath.Join(dir, "sinfo"), "#!/bin/sh\necho '"+cmp.Or(tt.slurm, "none|idle")+"'\n", 0o755)
			cmd := exec.Command(filepath.Join(dir, "rdma-health"))
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, _ := cmd.CombinedOutput()
			test.Eq(t, tt.code, cmd.ProcessState.ExitCode(), test.Sprintf("exit code: %s", out))
			want, drained := "", ""
			if tt.drained != "" {
				want = "update State=DRAIN Reason=RDMA: " + tt.drained + "\n"
			}
			if tt.resumed {
				want = "update State=RESUME \n"
			}
			if data, err := os.ReadFile(dir + "/drained"); err == nil {
				drained = string(data)
			}
			test.Eq(t, want, drained, test.Sprint("what scontrol got"))
		})
	}
}
