package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

const policyHeader = "apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\n"

// write writes a file of a test, and returns its name.
func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pod.yaml")
	must.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	return file
}

// drivers is a kubectl in PATH whose exec answers as dra-driver slices does in the pods of nodes with one machine.
// Tests of cmd/dra-driver show that the driver answers so, and those on a real cluster have the real kubectl.
type drivers struct {
	*testing.T
	dir string
}

func newDrivers(t *testing.T) *drivers {
	d := &drivers{t, t.TempDir()}
	const script = `#!/bin/sh
dir=$(dirname "$0")
echo "$*" >> "$dir/asked"
cat > "$dir/file"
cat "$dir/answer"
cat "$dir/error" >&2
code=$(cat "$dir/code")
[ $code = 0 ] || echo "command terminated with exit code $code" >&2
exit $code
`
	must.NoError(t, os.WriteFile(filepath.Join(d.dir, "kubectl"), []byte(script), 0o755))
	t.Setenv("PATH", d.dir+":"+os.Getenv("PATH"))
	return d
}

func (d *drivers) read(name string) string {
	d.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		d.Fatal(err)
	}
	return string(data)
}

// say sets the answers: what a machine publishes with a file, and what else the driver says.
func (d *drivers) say(machine, file string, code int, said string) {
	d.Helper()
	var answer []byte
	if machine != "" {
		f := fleet.New(d)
		f.Node("node1", machine, file)
		list := resourceapi.ResourceSliceList{}
		for _, s := range f.Lists().Slices {
			if s.Spec.Driver == "rdma.dev" {
				list.Items = append(list.Items, s)
			}
		}
		var err error
		if answer, err = json.Marshal(list); err != nil {
			d.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"answer": string(answer), "code": fmt.Sprint(code), "error": said, "asked": "",
	} {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644); err != nil {
			d.Fatal(err)
		}
	}
}

// TestPolicyTest: the driver of each node says what it would publish, and that is compared with what it publishes.
func TestPolicyTest(t *testing.T) {
	d := newDrivers(t)
	f := fleet.New(t)
	f.Node("node1", "roce-sriov", "")
	f.Node("node2", "roce-sriov", "")
	f.Node("plain", "none", "")
	f.Pods = f.Pods[:2]
	f.Pods[0].Spec.Containers = []corev1.Container{{Name: "driver", Args: []string{"--kubelet-dir=/elsewhere"}}}
	f.Allocate("node2", "vf", controlplane.Claim(controlplane.Want("vf", "vf.hca.rdma.dev")))
	// Everybody may copy a label, and an owner in his own namespace.
	lookalike := *f.Pods[0].DeepCopy()
	lookalike.Namespace, lookalike.Name = "tenant", "mine"
	f.Pods = append(f.Pods, lookalike)
	s := newSession(t, f)
	const warned = "Warning: not the driver's, although with its label: pod tenant/mine. The driver is in namespace " +
		"dra-driver-rdma, says annotation rdma.dev/account of its DeviceClasses, or the flag --driver-namespace\n"
	c := func(file string, args ...string) result {
		return s.run(append([]string{"policy", "test", "-f", write(t, policyHeader+file)}, args...)...)
	}
	d.say("roce-sriov", "", 0, "")
	if r := c("# as it is\n"); r.code != exitcode.OK || r.stderr != warned ||
		r.stdout != "Nodes node1, node2: 10 devices, now 10: nothing changes\n" {
		t.Errorf("a file that says what is: %+v", r)
	}
	test.Eq(t, policyHeader+"# as it is\n", d.read("file"), test.Sprint("the driver reads"))
	noted := strings.Replace(d.read("answer"), "{", `{"notes": ["rule rest matches no HCA of this host"],`, 1)
	must.NoError(t, os.WriteFile(filepath.Join(d.dir, "answer"), []byte(noted), 0o644))
	s.server.Version = "v1.35.4"
	test.Eq(t, "API server: Kubernetes 1.35\nNodes node1, node2: 10 devices, now 10: nothing changes\n"+
		"  Note: rule rest matches no HCA of this host\n",
		c("# as it is\n").stdout, test.Sprint("what matches nothing"))
	s.server.Version = ""
	must.NoError(t, os.WriteFile(filepath.Join(d.dir, "asked"), nil, 0o644))
	d.say("roce-sriov", "", 0, "")
	c("# as it is\n")
	for i, want := range []string{
		"node1 --container=driver -- dra-driver slices --config=- --output=json --kubelet-dir=/elsewhere",
		"node2 --container=driver -- dra-driver slices --config=- --output=json",
	} {
		want = "--kubeconfig=" + s.kubeconfig + " exec -i --quiet --namespace=dra-driver-rdma dra-driver-rdma-" + want
		test.Eq(t, want, strings.Split(d.read("asked"), "\n")[i], test.Sprint("kubectl gets"))
	}
	const vfs = `selectors: [{cel: {expression: 'device.attributes["rdma.dev"].function == "vf"'}}]`
	d.say("roce-sriov", "rules: [{name: vfs, publish: none, "+vfs+"}, {name: all, publish: both, shares: 4, rails: 2, "+
		"attributes: {tier: {string: gold}}}]\npartitioning: true\n", 0, "")
	r := c("", "-o", "wide")
	if r.code != exitcode.OK || r.stderr != warned {
		t.Fatalf("%+v", r)
	}
	golden.Bytes(t, "policy-test.txt", []byte(r.stdout))
	const fields = `jsonpath={.kind} {.items[*].node} {.items[*].devices} {.items[*].removed[*].claims}`
	r = c("", "node2", "-o", fields)
	test.Eq(t, result{exitcode.OK, `PolicyTestList node2 4 ["default/vf"]`, warned}, r,
		test.Sprint("one node, for programs"))
	d.say("", "", driverRefuses, "dra-driver: read policy \"-\": line 3: rules[0].publish: want none\n")
	if r := c(""); r.code != exitWrong ||
		r.stdout != "Node node1: read policy \"-\": line 3: rules[0].publish: want none\n" ||
		r.stderr != warned+"error: the driver of node node1 refuses the policy, and no other driver was asked\n" ||
		strings.Count(d.read("asked"), "\n") != 1 {
		t.Errorf("a bad file: %+v after %s", r, d.read("asked"))
	}
	d.say("roce-sriov", "", driverUnapplied,
		"dra-driver: the policy does not apply on this node: rule all numbers 3 cards\n")
	test.Eq(t, result{
		exitWrong, "Nodes node1, node2: the policy does not apply on this node: rule all numbers 3 cards\n" +
			"  With it, the node publishes 10 devices, now 10: nothing changes\n",
		warned + "error: the policy is not right for 2 of 2 nodes, or nobody can tell\n",
	}, c(""), test.Sprint("rails that do not apply"))
	d.say("roce-sriov", "", 0, "")
	r = c("", "node1", "--driver-namespace=tenant")
	test.Eq(t, exitcode.OK, r.code, test.Sprint("a user says who the driver is"))
	test.StrContains(t, r.stderr, "dra-driver-rdma/dra-driver-rdma-node1")
	test.StrContains(t, d.read("asked"), "--namespace=tenant mine")
	test.StrNotContains(t, d.read("asked"), "driver-namespace=")
	d.say("", "", 1, "Error from server (Forbidden): pods \"x\" is forbidden\n")
	if r := c(""); r.code != exitWrong ||
		r.stdout != "Nodes node1, node2: Error from server (Forbidden): pods \"x\" is forbidden\n" {
		t.Errorf("without the right: %+v", r)
	}
}

// TestPolicyTestErrors: nobody is asked if there is nobody to ask, and an answer that does not come is no approval.
func TestPolicyTestErrors(t *testing.T) {
	f := fleet.New(t)
	f.Node("node1", "roce-sriov", "")
	f.Node("node2", "roce-sriov", "")
	f.Pods = f.Pods[:1]
	s := newSession(t, f)
	file := write(t, "apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\n")
	t.Setenv("PATH", t.TempDir())
	for args, want := range map[string]result{
		"policy test":              {exitcode.Usage, "", `error: required flag(s) "filename" not set`},
		"policy test -f none.yaml": {exitcode.Usage, "", "error: read the policy: "},
		"policy test -f " + file + " node2": {exitcode.Failed, "", "error: find the driver of node node2: it has no pod " +
			"there; kubectl rdma nodes node2 says more"},
		"policy test -f " + file + " none": {exitcode.Failed, "", `Error from server (NotFound): nodes "none" not found`},
		"policy test -f " + file + " -l a=b": {exitcode.Failed, "",
			"error: find the drivers: no chosen node has a pod of the driver"},
		"policy test -f " + file: {
			exitWrong, "", "error: the policy is not right for 2 of 2 nodes, or nobody can tell",
		},
	} {
		if r := s.run(strings.Fields(args)...); r.code != want.code || !strings.Contains(r.stderr, want.stderr) {
			t.Errorf("kubectl rdma %s: %+v, want %+v", args, r, want)
		}
	}
	test.StrContains(t, s.run("policy", "test", "-f", file).stdout,
		"Node node1: run kubectl exec: exec: \"kubectl\": executable file not found", test.Sprint("without kubectl"))
}
