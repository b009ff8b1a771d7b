// Package plugin proves kubectl rdma on a real API server with the real scheduler: of
// a pod for each reason to wait, it names the reason, and what it says would help does.
package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// objects are nodes and slices of fixture machines (internal/test/drivertest/fleet).
const objects = "../../../../internal/test/drivertest/fleet/testdata/"

// bed is an API server with nodes, and kubectl with the plugin.
type bed struct {
	*testing.T
	kubeconfig string
	env        []string
}

// newBed starts a version of Kubernetes, the newest for "", with nodes.
func newBed(t *testing.T, version string, nodes ...string) *bed {
	cp, path := testbed.ControlPlane(t, cluster.Options{Kubernetes: version, Progress: t.Output()})
	must.NoError(t, install())
	b := &bed{T: t, kubeconfig: cp.Kubeconfig()}
	b.env = append(os.Environ(), "KUBECONFIG="+b.kubeconfig, "HOME="+t.TempDir(), "PATH="+programs+":"+path+":"+os.Getenv("PATH"))
	must.NoError(t, cp.Schedule())
	for _, name := range nodes {
		b.nodes(objects + name + ".json")
	}
	b.until("a service account", func() bool { return b.try("kubectl", "get", "serviceaccount", "default") == nil })
	return b
}

// programs is the directory of what the tests install.
var programs string

func TestMain(m *testing.M) {
	if os.Getenv(measureVariable) != "" {
		os.Exit(runMeasured(os.Args[1:]))
	}
	dir, err := os.MkdirTemp("", "kubectl-rdma-")
	if err != nil {
		panic(err)
	}
	programs = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// install puts the plugin, as `make build` left it, and its completion into one directory, once.
var install = sync.OnceValue(func() error {
	checkout, err := deploy.FindCheckout()
	if err != nil {
		return err
	}
	const completion = "kubectl_complete-rdma"
	program := checkout.Program("kubectl-rdma")
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("%w (is it built? make build)", err)
	}
	return errors.Join(
		os.Symlink(program, filepath.Join(programs, "kubectl-rdma")),
		os.Symlink(checkout.Path("packaging", "krew", completion), filepath.Join(programs, completion)))
})

// nodes applies nodes with their status, and removes the taint that a new node has.
func (b *bed) nodes(file string) {
	b.run("kubectl", "apply", "--server-side", "-f", file)
	var list struct {
		Items []struct {
			Kind     string
			Metadata struct{ Name string }
			Status   json.RawMessage
		}
	}
	data, err := os.ReadFile(file)
	must.NoError(b, err)
	must.NoError(b, json.Unmarshal(data, &list))
	for _, o := range list.Items {
		if o.Kind == "Node" {
			b.run("kubectl", "patch", "node", o.Metadata.Name, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(`{"status": %s}`, o.Status))
			b.run("kubectl", "patch", "node", o.Metadata.Name, "--type=merge", "-p", `{"spec": {"taints": []}}`)
		}
	}
}

func (b *bed) command(args ...string) *exec.Cmd {
	// The program is looked up in the test bed's PATH, not in ours.
	cmd := exec.CommandContext(b.Context(), "/usr/bin/env", args...)
	cmd.Env = b.env
	return cmd
}

// run runs a program and returns its standard output.
func (b *bed) run(args ...string) string {
	b.Helper()
	cmd := b.command(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	must.NoError(b, err, must.Sprintf("%s\n%s%s", strings.Join(args, " "), out, &stderr))
	return string(out)
}

func (b *bed) try(args ...string) error { return b.command(args...).Run() }

func (b *bed) apply(manifest string) {
	b.Helper()
	cmd := b.command("kubectl", "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	out, err := cmd.CombinedOutput()
	must.NoError(b, err, must.Sprintf("apply\n%s\n%s", out, manifest))
}

// until waits for a condition.
func (b *bed) until(what string, ok func() bool) {
	b.Helper()
	testbed.Eventually(b.T, what, func() error {
		if !ok() {
			return errors.New("there is none")
		}
		return nil
	})
}

// answer is what programs read of kubectl rdma why.
type answer struct {
	Pod, Phase, Verdict, Summary string
	Unread                       []string
	Findings                     []struct{ ID, Message string }
	Claims                       []struct {
		Requests []struct {
			RuledOut []struct {
				Reason, Detail  string
				Devices, Claims []string
			}
		}
	}
	Remedies []struct{ Change, What, Node string }
}

func (b *bed) why(pod string) (a answer) {
	b.Helper()
	// Without kubectl, which does nothing but start it.
	must.NoError(b, json.Unmarshal([]byte(b.run("kubectl-rdma", "why", pod, "-o", "json")), &a))
	return a
}

// reasons are all that an answer names: findings, rulings and remedies.
func (a answer) reasons() map[string]bool {
	out := map[string]bool{}
	for _, f := range a.Findings {
		out[f.ID] = true
	}
	for _, c := range a.Claims {
		for _, r := range c.Requests {
			for _, ruled := range r.RuledOut {
				out["ruled out: "+ruled.Reason] = true
			}
		}
	}
	for _, r := range a.Remedies {
		out["would help: "+r.Change] = true
	}
	return out
}
