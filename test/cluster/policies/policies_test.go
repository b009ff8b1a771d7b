// Package policies asks a real API server what the chart's admission policies say.
package policies

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/kubectl"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// server is an API server with the policies of the chart.
type server struct{ kubectl.Client }

func start(t *testing.T, o cluster.Options) *server {
	t.Helper()
	o.Progress = t.Output()
	control, path := testbed.ControlPlane(t, o)
	t.Setenv("PATH", path+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return &server{kubectl.Client{Kubeconfig: control.Kubeconfig(), Cache: t.TempDir()}}
}

func (s *server) run(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := s.Run(t.Context(), input, &out, &out, args...)
	return out.String(), err
}

// install applies templates of the chart.
func (s *server) install(t *testing.T, templates ...string) {
	t.Helper()
	checkout, err := deploy.FindCheckout()
	must.NoError(t, err)
	for _, name := range templates {
		manifest, err := exec.CommandContext(t.Context(), "helm", "template", deploy.Release, checkout.Chart(),
			"--namespace", deploy.Namespace, "--show-only", "templates/"+name).Output()
		must.NoError(t, err, must.Sprint("helm template"))
		out, err := s.run(t, string(manifest), "apply", "-f", "-")
		must.NoError(t, err, must.Sprintf("apply %s: %s", name, out))
	}
}

// verdict is a line of test/chart/testdata/parameters.golden.jsonl: what the driver says.
type verdict struct {
	In         string
	Parameters json.RawMessage
	Good       bool
	Says       string
	Beyond     bool
}

func readVerdicts(t *testing.T) []verdict {
	t.Helper()
	file, err := os.Open("../../chart/testdata/parameters.golden.jsonl")
	must.NoError(t, err)
	defer file.Close()
	var verdicts []verdict
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var v verdict
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("%v in %s", err, lines.Text())
		}
		verdicts = append(verdicts, v)
	}
	if len(verdicts) == 0 {
		t.Fatal("no verdicts")
	}
	return verdicts
}

// objects puts parameters into objects of the API, each beside those of another driver.
func (v verdict) objects(name string) []string {
	const config = `"config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"memlock": []}}}, {"opaque": {"driver": "rdma.dev", "parameters": %s}}]`
	const spec = `{"devices": {"requests": [{"name": "hca", "exactly": {"deviceClassName": "hca.rdma.dev"}}], ` + config + `}}`
	const head = `{"apiVersion": "resource.k8s.io/v1", "kind": "%s", "metadata": {"name": "%s"}, "spec": `
	if v.In == "class" {
		return []string{fmt.Sprintf(head+`{`+config+`}}`, "DeviceClass", name, v.Parameters)}
	}
	return []string{
		fmt.Sprintf(head+spec+`}`, "ResourceClaim", name, v.Parameters),
		fmt.Sprintf(head+`{"spec": `+spec+`}}`, "ResourceClaimTemplate", name, v.Parameters),
	}
}

// TestServer asks one API server for all that TestReach does not.
func TestServer(t *testing.T) {
	s := start(t, cluster.WithPodGroupClaims(cluster.Options{}))
	s.must(t, "create", "namespace", deploy.Namespace)
	s.install(t, "policy-parameters.yaml")
	s.await(t, readVerdicts(t))
	t.Run("parameters", s.parameters)
	t.Run("documents", s.documents)
	t.Run("claims without requests", s.claimsWithoutRequests)
	t.Run("Prometheus operator", s.prometheusOperator)
}

// An API server with the chart's policies refuses the parameters that
// the driver would refuse, says what the field is, and accepts all that the driver
// accepts.
func (s *server) parameters(t *testing.T) {
	verdicts := readVerdicts(t)
	var input strings.Builder
	for i, v := range verdicts {
		for _, object := range v.objects(fmt.Sprintf("n%d", i)) {
			input.WriteString(object + "\n---\n")
		}
	}
	out, _ := s.run(t, input.String(), "create", "--dry-run=server", "--validate=false", "-f", "-")
	for i, v := range verdicts {
		name := fmt.Sprintf("n%d", i)
		var created, denied int
		for line := range strings.Lines(out) {
			switch {
			case strings.Contains(line, "/"+name+" created"):
				created++
			case strings.Contains(line, `"`+name+`"`):
				denied++
				if !strings.Contains(line, "ValidatingAdmissionPolicy") || !strings.Contains(line, v.Says) {
					t.Errorf("%s: %s says %s, want the policy to say %q", name, v.Parameters, line, v.Says)
				}
			}
		}
		all := len(v.objects(name))
		if v.Good && created != all || !v.Good && denied != all && !v.Beyond || created+denied != all {
			t.Errorf("%s of a %s: accepted %d times, refused %d times, of %d; the driver accepts them: %v", v.Parameters, v.In, created, denied, all, v.Good)
		}
	}
}

// await waits until both policies are in force, which takes the API server a moment.
func (s *server) await(t *testing.T, verdicts []verdict) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for _, in := range []string{"claim", "class"} {
		for _, v := range verdicts {
			if v.In != in || v.Says == "" {
				continue
			}
			for {
				out, err := s.run(t, v.objects("probe")[0], "create", "--dry-run=server", "-f", "-")
				if err != nil && strings.Contains(out, v.Says) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("the policies are not in force: %v: %s", err, out)
				}
			}
			break
		}
	}
}

// An API server with default feature gates has taken the plain manifests in one go (startReach). It has stored what
// they say, and deletes it.
func (s *server) manifests(t *testing.T) {
	checkout, err := deploy.FindCheckout()
	must.NoError(t, err)
	manifests := checkout.Path("deployments", "manifests", "dra-driver-rdma.yaml")
	for _, args := range [][]string{{"diff", "-f", manifests}, {"delete", "--wait=false", "-f", manifests}} {
		out, err := s.run(t, "", args...)
		test.NoError(t, err, test.Sprintf("kubectl %s: %s", args[0], out))
	}
}
