package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/version"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
)

// TestNamesOfNodes: nodes are arguments, as of kubectl get. A name of no node is an error, also if it comes from
// --node. Only for nodes without slices the API server is asked, and who may not list nodes gets no error.
func TestNamesOfNodes(t *testing.T) {
	s := newSession(t, fleet.Mixed(t))
	const devices, topology = `devices -o jsonpath={.items[*].node}`, `topology -o jsonpath={.items[*].node}`
	for args, want := range map[string]string{
		devices + " node3 node3":                 strings.TrimSpace(strings.Repeat("node3 ", 32)),
		devices + " node1":                       strings.TrimSpace(strings.Repeat("node1 ", 12)),
		devices + " node2 -l machine=aws-p5":     "",
		topology + " node3 node1":                "node1 node3",
		topology + " node3 --node=node2":         "node2 node3",
		topology + " node1 -l machine!=aws-p5":   "node1",
		`devices plain -o jsonpath={.items}`:     "[]",
		`topology plain -o jsonpath={.items[*]}`: "",
	} {
		test.Eq(t, want, s.ok(strings.Fields(args)...), test.Sprintf("kubectl rdma %s prints", args))
	}
	for _, args := range []string{"devices node1 none", "devices --node=none", "topology none"} {
		if r := s.run(strings.Fields(args)...); r.code != exitError || r.stdout != "" ||
			r.stderr != "Error from server (NotFound): nodes \"none\" not found\n" {
			t.Errorf("kubectl rdma %s: %+v", args, r)
		}
		test.Eq(t, "list nodes", s.server.Asked[len(s.server.Asked)-1],
			test.Sprintf("kubectl rdma %s asks last", args))
	}
	s.server.Forbidden = []string{"list nodes"}
	if r := s.run("devices", "none"); r.code != exitOK || r.stderr != noResources+"\n" {
		t.Errorf("without the right to list nodes: %+v", r)
	}
}

// TestSortBy: the largest come first where that is what one looks for, and equal items keep their order.
func TestSortBy(t *testing.T) {
	s := newSession(t, fleet.Mixed(t))
	for args, want := range map[string]string{
		"nodes -o name --sort-by free":                                   "node/node3 node/node2 node/node1",
		"nodes -o name --sort-by tainted":                                "node/node1 node/node2 node/node3",
		"nodes --sort-by used -o jsonpath={.items[*].used}":              "2 2 0",
		"claims -o name --sort-by name":                                  "share train vf waits",
		"claims -o jsonpath={.items[*].node} --sort-by=node":             "node1 node2 node2",
		"devices node1 --sort-by rail -o jsonpath={.items[*]..rail}":     "0 1 2 3 4 5 6 7",
		"devices node1 --sort-by rate -o jsonpath={.items[*]..rateGbps}": "400 400 400 400 400 400 400 400 200 200 200",
		"devices node1 --sort-by numa -o jsonpath={.items[*].name}": "pci-0000-18-00-0 pci-0000-29-00-0 pci-0000-29-00-1 pci-0000-40-00-0 pci-0000-4f-00-0 " +
			"pci-0000-5e-00-0 pci-0000-9a-00-0 pci-0000-aa-00-0 pci-0000-aa-00-1 pci-0000-c0-00-0 pci-0000-ce-00-0 pci-0000-dc-00-0",
		"devices node1 --sort-by state -o jsonpath={.items[*].state}": strings.Repeat("Free ", 11) + "Allocated",
	} {
		got := strings.Join(strings.Fields(s.ok(strings.Fields(args)...)), " ")
		got = strings.ReplaceAll(got, "resourceclaim.resource.k8s.io/", "")
		test.Eq(t, want, got, test.Sprintf("kubectl rdma %s prints", args))
	}
	for args, want := range map[string]string{
		"nodes --sort-by .metadata.name": `error: --sort-by ".metadata.name": want one of: free, name, tainted, used`,
		"devices --sort-by speed":        `error: --sort-by "speed": want one of: name, numa, rail, rate, state`,
		"claims --sort-by x":             `error: --sort-by "x": want one of: age, name, node, state`,
	} {
		if r := s.run(strings.Fields(args)...); r.code != exitError || r.stderr != want+"\n" || len(s.server.Asked) > 0 {
			t.Errorf("kubectl rdma %s: %+v after %q, want %q and no request", args, r, s.server.Asked, want)
		}
	}
	for _, c := range newRoot(genericiooptions.NewTestIOStreamsDiscard()).Commands() {
		flag := c.Flag("sort-by")
		if flag == nil {
			continue
		}
		keys := s.run("__complete", c.Name(), "--sort-by", "").stdout
		for key := range strings.Lines(keys) {
			if key = strings.TrimSpace(key); !strings.HasPrefix(key, ":") && !strings.Contains(flag.Usage, key) {
				t.Errorf("the help of %s --sort-by lacks %q: %s", c.Name(), key, flag.Usage)
			}
		}
	}
}

// TestNames: -o name is what kubectl takes again.
func TestNames(t *testing.T) {
	s := newSession(t, fleet.Jobs(t))
	for args, want := range map[string]string{
		"status -o name":                       "pod/debug",
		"claims debug -o name":                 "resourceclaim.resource.k8s.io/debug",
		"nodes node2 -o name":                  "node/node2",
		"devices node1 --sort-by=rate -o name": "device/node1/pci-0000-18-00-0",
	} {
		first, _, _ := strings.Cut(s.ok(strings.Fields(args)...), "\n")
		test.Eq(t, want, first, test.Sprintf("kubectl rdma %s begins", args))
	}
	if r := s.run("nodes", "-o", "name", "-l", "a=b"); r.code != exitOK || r.stdout != "" || r.stderr != noResources+"\n" {
		t.Errorf("no node has the label: %+v", r)
	}
}

// TestFormatsEverywhere: each command that prints a result has -o json and yaml. A bundle is an archive.
func TestFormatsEverywhere(t *testing.T) {
	for _, c := range newRoot(genericiooptions.NewTestIOStreamsDiscard()).Commands() {
		if c.HasSubCommands() {
			c = c.Commands()[0]
		}
		output := c.Flag("output")
		has := func(format string) bool { return output != nil && strings.Contains(output.Usage, format) }
		if c.Name() != "bundle" && !(has("json") && has("yaml")) {
			t.Errorf("kubectl rdma %s has no -o json and yaml", c.Name())
		}
	}
	var got struct{ APIVersion, Kind, Version string }
	r := newSession(t, fleet.New(t)).ok("version", "-o", "json")
	if err := json.Unmarshal([]byte(r), &got); err != nil || got.APIVersion != apiVersion || got.Kind != "Version" ||
		got.Version != version.Get() {
		t.Errorf("version -o json prints %s (%v)", r, err)
	}
}
