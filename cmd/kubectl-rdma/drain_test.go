package main

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// crowded is a cluster with an HCA that claims have in every way: its VF, shares of it, and in a group.
func crowded(t *testing.T) *fleet.Fleet {
	f := fleet.Mixed(t)
	f.Node("node4", "roce-sriov", "groups: [{name: all, shares: 4, selectors: [{cel: {expression: '"+fleet.RDMA+
		".function == \"pf\"'}}]}]\nrules:\n- {name: all, publish: shared, shares: 4}\n")
	f.Class("group", `device.driver == "rdma.dev" && device.attributes["rdma.dev"].?group.orValue("") == "all"`)
	f.Allocate("node4", "grouped", controlplane.Claim(controlplane.Want("all", "group")))
	tolerant := f.Allocate("node4", "tolerant", controlplane.Claim(controlplane.Want("share", "shared.hca.rdma.dev",
		fleet.RDMA+`.ibdev == "mlx5_0"`)))
	tolerant.Status.Allocation.Devices.Results[0].Tolerations = []resourceapi.DeviceToleration{
		{Key: inspect.DrainKey, Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute},
	}
	// The scheduler takes a toleration without effect for one of all effects, and the controller that evicts for none.
	f.Claims["vf"].Status.Allocation.Devices.Results[0].Tolerations = []resourceapi.DeviceToleration{
		{Operator: resourceapi.DeviceTolerationOpExists},
	}
	f.Claims["share"].Status.Allocation.Devices.Results[0].Tolerations = []resourceapi.DeviceToleration{
		{Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute, TolerationSeconds: new(int64(25))},
	}
	return f
}

// writes returns the requests of the last command that changed something.
func (s *session) writes() (out []string) {
	for _, asked := range s.server.Asked {
		if verb, _, _ := strings.Cut(asked, " "); verb != "list" && verb != "get" {
			out = append(out, asked)
		}
	}
	return out
}

func (s *session) ruleNames() (out []string) {
	for _, r := range s.server.Rules() {
		out = append(out, r.Name)
	}
	slices.Sort(out)
	return out
}

// TestDrain: whole outputs. Draining again changes nothing, and undrain leaves nothing of it.
func TestDrain(t *testing.T) {
	s := newSession(t, crowded(t))
	golden.Bytes(t, "drain-dry-run.txt", []byte(s.ok("drain", "node2", "mlx5_0", "--dry-run")))
	test.Nil(t, s.writes(), test.Sprint("--dry-run writes"))
	golden.Bytes(t, "drain.txt", []byte(s.ok("drain", "node2", "mlx5_0", "--reason", "cable 17")))
	golden.Bytes(t, "drain-group.txt", []byte(s.ok("drain", "node4", "pci-0000-3b-00-0")))
	golden.Bytes(t, "drain-node.txt", []byte(s.ok("drain", "node1", "--effect=None")))
	before := s.ruleNames()
	again := s.ok("drain", "node2", "mlx5_0")
	for _, w := range s.writes() {
		test.StrContains(t, w, "rdma-look.", test.Sprint("draining again"))
	}
	if !strings.Contains(again, "unchanged") || !slices.Equal(before, s.ruleNames()) {
		t.Errorf("draining again:\n%s%q, before %q", again, s.ruleNames(), before)
	}
	golden.Bytes(t, "drain-status.txt", []byte(s.run("status", "-o", "wide").stdout))
	golden.Bytes(t, "drain-devices.txt", []byte(s.ok("devices", "--node=node2", "--class=hca.rdma.dev")))
	for _, args := range []string{"undrain node2 mlx5_0", "undrain node4 shared-pci-0000-3b-00-0", "undrain node1"} {
		s.ok(strings.Fields(args)...)
	}
	test.Nil(t, s.ruleNames(), test.Sprint("undrain leaves"))
}

// TestDrainEvict: the rules get NoExecute only after a yes.
func TestDrainEvict(t *testing.T) {
	s := newSession(t, crowded(t))
	s.ok("drain", "node2", "mlx5_0")
	effects := func() string {
		seen := map[resourceapi.DeviceTaintEffect]bool{}
		out := ""
		for _, r := range s.server.Rules() {
			if !seen[r.Spec.Taint.Effect] {
				out += string(r.Spec.Taint.Effect)
			}
			seen[r.Spec.Taint.Effect] = true
		}
		return out
	}
	for answer, want := range map[string]string{"": "NoSchedule", "no\n": "NoSchedule", "yesterday\n": "NoSchedule", "yes\n": "NoExecute"} {
		var stdout, stderr bytes.Buffer
		code := run(context.Background(), []string{"--kubeconfig=" + s.kubeconfig, "drain", "node2", "mlx5_0", "--evict"},
			strings.NewReader(answer), &stdout, &stderr)
		if (code == exitOK) != (want == "NoExecute") || !strings.Contains(stderr.String(), "ignores PodDisruptionBudgets") {
			t.Errorf("answer %q: exit code %d, %s", answer, code, &stderr)
		}
		if want == "NoExecute" && effects() != want {
			t.Errorf("answer %q: effects %s", answer, effects())
		}
		if want != "NoExecute" && code == exitOK {
			t.Errorf("answer %q: %s", answer, effects())
		}
		s.ok("drain", "node2", "mlx5_0") // takes it back
		test.Eq(t, "NoSchedule", effects(), test.Sprint("without --evict: effects"))
	}
	s.ok("drain", "node2", "mlx5_0", "--evict", "--yes")
	test.Eq(t, "NoExecute", effects(), test.Sprint("--yes: effects"))
	for _, name := range s.ruleNames() {
		test.StrNotContains(t, name, "rdma-look.", test.Sprint("is left"))
	}
}

// TestDrainForeign: a rule of somebody else stays, whatever its name is.
func TestDrainForeign(t *testing.T) {
	f := crowded(t)
	names := map[string]*resourceapi.DeviceTaintRule{}
	for _, name := range []string{"rdma-drain.node.node1", "maintenance"} {
		names[name] = f.Rule(name, "rdma.dev", inspect.DrainKey, resourceapi.DeviceTaintEffectNoSchedule).DeepCopy()
	}
	// It has the label, and selects what no rule of a drain selects.
	f.Rules[1].Labels = map[string]string{inspect.DrainKey: "node"}
	s := newSession(t, f)
	r := s.run("drain", "node1")
	if r.code != exitError || !strings.Contains(r.stderr, "a rule of somebody else has this name") {
		t.Errorf("%+v", r)
	}
	r = s.run("undrain", "node1")
	if r.code != exitOK || !strings.Contains(r.stderr, "Nothing to do") {
		t.Errorf("%+v", r)
	}
	test.SliceEqOp(t, []string{"maintenance", "rdma-drain.node.node1"}, s.ruleNames(), test.Sprint("rules"))
}

// TestDrainErrors: each error names what to do, and nothing is changed.
func TestDrainErrors(t *testing.T) {
	s := newSession(t, crowded(t))
	for args, want := range map[string]string{
		"drain":                             "error: name a node, as in kubectl rdma drain",
		"undrain":                           "error: name a node, as in kubectl rdma undrain",
		"drain nodeX":                       `Error from server (NotFound): nodes "nodeX" not found`,
		"drain node2 mlx5_77":               `error: find HCA "mlx5_77" of node "node2": it is not published; name one of: mlx5_1, mlx5_0`,
		"drain node4 group-all":             `error: find HCA "group-all" of node "node4"`,
		"drain node2 --effect=NoExecute":    "to end running pods, use --evict",
		"drain node2 --effect=None --evict": "leave --effect=None out",
		"undrain node2 mlx5_0":              "nothing of this node is drained",
		"drain node2 --reason=" + strings.Repeat("x", 201): "want one line of at most 200 bytes",
	} {
		r := s.run(strings.Fields(args)...)
		if r.code != exitError || r.stdout != "" || !strings.Contains(r.stderr, want) || s.writes() != nil {
			t.Errorf("kubectl rdma %s: %+v, %q; want %q", args, r, s.writes(), want)
		}
	}
	s.server.Forbidden = []string{"create devicetaintrules", "list resourceclaims"}
	r := s.run("drain", "node2")
	if r.code != exitError || !strings.Contains(r.stderr, "you may not list resourceclaims, create devicetaintrules") ||
		!strings.Contains(r.stderr, "accessRoles.create") {
		t.Errorf("without rights: %+v", r)
	}
	s.server.Forbidden, s.server.RuleVersions = nil, nil
	r = s.run("drain", "node2")
	if r.code != exitError || !strings.Contains(r.stderr, "serves no DeviceTaintRules") ||
		!strings.Contains(r.stderr, "kubectl cordon node2") {
		t.Errorf("without the API: %+v", r)
	}
}

// TestDrainVersions: rules are written in the version that the API server serves.
func TestDrainVersions(t *testing.T) {
	for _, version := range []string{"v1", "v1beta2", "v1alpha3"} {
		s := newSession(t, crowded(t))
		s.server.RuleVersions = []string{version}
		s.ok("drain", "node2", "mlx5_1", "--reason", "x", "-o", "json")
		for _, r := range s.server.Rules() {
			test.Eq(t, "resource.k8s.io/"+version, r.APIVersion,
				test.Sprintf("rule %s is of %s, want %s", r.Name, r.APIVersion, version))
		}
	}
}

// TestDrainWhy: the explanation of a pod names the rule, its reason and its author.
func TestDrainWhy(t *testing.T) {
	f, _ := fleet.Short(t)
	s := newSession(t, f)
	s.ok("drain", "node2", "--reason", "firmware \x1b[31m")
	out := s.ok("why", "trainer")
	if !strings.Contains(out, `by DeviceTaintRule rdma-drain.node.node2, drained by "jane": "firmware `) ||
		strings.Contains(out, "\x1b") {
		t.Errorf("why:\n%s", out)
	}
}

// TestDrainNames: a rule's name is valid for the API server, whatever the names of node and HCA are.
func TestDrainNames(t *testing.T) {
	valid := regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	long := strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + "." + strings.Repeat("c", 63) + "." + strings.Repeat("d", 61)
	seen := map[string]bool{}
	for _, node := range []string{"n", long, long[:252] + "e"} {
		c := &inspect.Cluster{}
		plan, err := c.PlanDrain(node, nil, resourceapi.DeviceTaintEffectNoSchedule, "")
		must.NoError(t, err)
		name := plan.Rules[0].Name
		if len(name) > 253 || !valid.MatchString(name) || seen[name] {
			t.Errorf("node %s: rule %s", node, name)
		}
		seen[name] = true
	}
}

// TestDrainJSON: programs get the plan, the API server's words and the results.
func TestDrainJSON(t *testing.T) {
	s := newSession(t, crowded(t))
	var got struct {
		Kind     string
		Users    []struct{ Claim string }
		Opinions []struct{ Message string }
		Results  []struct{ Rule, Done string }
	}
	must.NoError(t, json.Unmarshal([]byte(s.ok("drain", "node2", "mlx5_0", "-o", "json")), &got))
	if got.Kind != "Drain" || len(got.Users) == 0 || len(got.Opinions) != 1 || got.Opinions[0].Message != fleet.Opinion ||
		len(got.Results) == 0 || got.Results[0].Done != "created" {
		t.Errorf("%+v", got)
	}
}
