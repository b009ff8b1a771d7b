package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

type result struct {
	code           int
	stdout, stderr string
}

// rdma runs the program as "kubectl rdma ARGS" does, on the cluster of a server.
func rdma(s *fleet.Server, kubeconfig string, args ...string) result {
	s.Asked = nil
	var stdout, stderr bytes.Buffer
	// What is completed is the last argument, so the flag comes before the others.
	at := 0
	if len(args) > 0 && args[0] == cobra.ShellCompRequestCmd {
		at = 1
	}
	args = slices.Insert(slices.Clone(args), at, "--kubeconfig="+kubeconfig)
	code := run(context.Background(), args, strings.NewReader(""), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// session runs commands on one cluster.
type session struct {
	t          *testing.T
	server     *fleet.Server
	kubeconfig string
}

func newSession(t *testing.T, f *fleet.Fleet) *session {
	t.Setenv("KUBECONFIG", "")
	s := f.Serve()
	return &session{t, s, s.Kubeconfig()}
}

func (s *session) run(args ...string) result { return rdma(s.server, s.kubeconfig, args...) }

// ok runs a command that must work and say nothing on standard error.
func (s *session) ok(args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	if r.code != exitOK || r.stderr != "" {
		s.t.Fatalf("kubectl rdma %s: exit code %d, %s", strings.Join(args, " "), r.code, r.stderr)
	}
	return r.stdout
}

// TestOutput: whole outputs of whole runs. docs/kubectl-rdma.md shows some of them.
func TestOutput(t *testing.T) {
	mixed := newSession(t, fleet.Mixed(t))
	short, _ := fleet.Short(t)
	waiting := newSession(t, short)
	for name, args := range map[string][]string{
		"nodes":            {"nodes"},
		"nodes-wide":       {"nodes", "-o", "wide"},
		"devices":          {"devices", "--node=node2", "--class=hca.rdma.dev"},
		"devices-cel":      {"devices", "--cel", fleet.RDMA + `.?rail.orValue(-1) in [0, 3]`, "-o", "wide"},
		"claims-json":      {"claims", "vf", "-o", "json"},
		"topology":         {"topology", "--node=node1"},
		"topology-ascii":   {"topology", "--node=node2", "--ascii"},
		"topology-cluster": {"topology", "--cluster", "-l", "machine!=aws-p5"},
	} {
		golden.Bytes(t, name+".txt", []byte(mixed.ok(args...)))
	}
	golden.Bytes(t, "status.txt", []byte(newSession(t, fleet.Jobs(t)).ok("status")))
	golden.Bytes(t, "why.txt", []byte(waiting.ok("why", "trainer")))
	golden.Bytes(t, "why-wide.txt", []byte(waiting.ok("why", "pod/trainer", "-o", "wide")))
	golden.Bytes(t, "why.yaml", []byte(waiting.ok("why", "trainer", "-o", "yaml")))
}

// TestLists: kubectl's flags do what they do in kubectl.
func TestLists(t *testing.T) {
	s := newSession(t, fleet.Mixed(t))
	for _, tc := range []struct {
		args string
		want string // the first words of the lines
	}{
		{"nodes --no-headers", "node1 node2 node3"},
		{"nodes --no-headers node2 plain", "node2 plain"},
		{"nodes --no-headers -l machine=aws-p5", "node3"},
		{"nodes --no-headers --field-selector=metadata.name=node1", "node1"},
		{"devices --no-headers --node=node2 --class=vf.hca.rdma.dev", strings.TrimSpace(strings.Repeat("node2 ", 8))},
		{"devices --no-headers -l machine=roce-sriov --class=vf.hca.rdma.dev",
			strings.TrimSpace(strings.Repeat("node2 ", 8))},
		{"devices --no-headers -l machine=roce-sriov --node=node1", ""},
		{"claims --no-headers", "share train vf waits"},
		{"claims --no-headers -n fabric", "monitor"},
		{"claims --no-headers --context=other", "monitor"},
		{"claims --no-headers -A", "default default default default fabric"},
		{"claims --no-headers train", "train"},
		{"claims --no-headers --field-selector=metadata.name=vf", "vf"},
		{"topology -l machine=aws-p5 -o jsonpath={.items[*].node}", "node3"},
		{"nodes -o jsonpath={.items[*].name}", "node1 node2 node3"},
		{"nodes -o go-template={{len.items}}", "3"},
		{"devices --cel=false -o jsonpath={.items}", "[]"},
	} {
		r := s.run(strings.Fields(tc.args)...)
		if strings.Contains(tc.args, "go-template") {
			r = s.run("nodes", "-o", "go-template={{len .items}}")
		}
		var got []string
		for line := range strings.Lines(r.stdout) {
			words := strings.Fields(line)
			if strings.Contains(tc.args, "jsonpath") || strings.Contains(tc.args, "template") {
				got = append(got, words...)
			} else {
				got = append(got, words[0])
			}
		}
		if r.code != exitOK || strings.Join(got, " ") != tc.want {
			t.Errorf("kubectl rdma %s: exit code %d, %q, %s; want %q", tc.args, r.code, got, r.stderr, tc.want)
		}
	}
}

// TestNothing: that there is nothing is no error, and is said where programs do not
// read it.
func TestNothing(t *testing.T) {
	s := newSession(t, fleet.New(t))
	for args, want := range map[string]string{
		"nodes":   "No resources found: no node runs the driver or publishes RDMA devices. To see others, name them\n",
		"devices": "No resources found\n", "topology": "No resources found\n",
		"claims": "No resources found in default namespace.\n", "claims -A": "No resources found\n",
		"claims -n fabric": "No resources found in fabric namespace.\n",
		"status":           "No resources found in default namespace.\n", "status -A": "No resources found\n",
	} {
		if r := s.run(strings.Fields(args)...); r.code != exitOK || r.stdout != "" || r.stderr != want {
			t.Errorf("kubectl rdma %s: %+v, want %q", args, r, want)
		}
		r := s.run(append(strings.Fields(args), "-o", "json")...)
		var list struct {
			APIVersion, Kind string
			Items            []any
		}
		if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || r.stderr != "" || list.Items == nil ||
			list.APIVersion != apiVersion {
			t.Errorf("kubectl rdma %s -o json: %+v, %v; want an empty list", args, r, err)
		}
	}
}

// TestErrors: errors are on standard error, as kubectl words them, and the code is 1.
func TestErrors(t *testing.T) {
	f := fleet.Mixed(t)
	f.Pods = append(f.Pods, fleet.Pod("waits"))
	s := newSession(t, f)
	s.server.Forbidden = []string{"list deviceclasses"}
	for args, want := range map[string]string{
		"why none":                     `Error from server (NotFound): pods "none" not found`,
		"why deployment/x":             `error: explain "deployment/x": want the name of a pod`,
		"why":                          `error: name one pod, as in kubectl rdma why trainer-0, or a file by -f: there are 0 names`,
		"nodes node1 none":             `Error from server (NotFound): nodes "none" not found`,
		"claims none":                  `Error from server (NotFound): resourceclaims.resource.k8s.io "none" not found`,
		"devices --class=hca.rdma.dev": `find DeviceClass "hca.rdma.dev"`,
		"devices --cel=1+":             `error: select devices: compile "1+": `,
		"devices -o csv": `error: unable to match a printer suitable for the output format "csv", allowed ` +
			`formats are: `,
		"topology -o svg":                `error: an SVG shows one node, and there are 3: name one of them`,
		"nodes --context=none":           `error: context "none" does not exist`,
		"frobnicate":                     `error: unknown command "frobnicate"`,
		"nodes --no-such-flag":           `error: unknown flag: --no-such-flag`,
		"nodes -o jsonpath={.items[*].x": `error: `,
	} {
		r := s.run(strings.Fields(args)...)
		if r.code != exitError || r.stdout != "" || !strings.Contains(r.stderr, want) {
			t.Errorf("kubectl rdma %s: %+v, want %q", args, r, want)
		}
	}
}

// TestRights: each command reads what its question needs, and all that is not essential may be forbidden.
func TestRights(t *testing.T) {
	f, _ := fleet.Short(t)
	s := newSession(t, f)
	for args, want := range map[string]string{
		"nodes": "list nodes; list resourceslices; list resourceclaims; list pods; list devicetaintrules; " +
			"list deviceclasses; list default/events",
		"devices":                  "list resourceslices; list resourceclaims; list devicetaintrules",
		"devices -l a=b --class=c": "list nodes; list resourceslices; list resourceclaims; list devicetaintrules; list deviceclasses",
		"topology":                 "list resourceslices; list resourceclaims; list devicetaintrules",
		"claims":                   "list default/resourceclaims; list deviceclasses; list resourceslices",
		"claims -A":                "list resourceclaims; list deviceclasses; list resourceslices",
		"status": "list default/resourceclaims; list default/pods; list resourceslices; list deviceclasses; " +
			"list devicetaintrules; list default/resourceclaimtemplates; list default/events; list pods",
		"status -A -l a=b": "list resourceclaims; list pods; list resourceslices; list deviceclasses; " +
			"list devicetaintrules; list resourceclaimtemplates; list events; list pods; list default/events",
		"why trainer": "get default/pods/trainer; list resourceslices; list deviceclasses; " +
			"list devicetaintrules; list resourceclaims; list nodes; list pods; list default/events",
		"version":                      "",
		"--version":                    "",
		"completion bash":              "",
		"__complete why tra":           "list default/pods",
		"__complete devices --class= ": "list deviceclasses",
		"__complete nodes n":           "list resourceslices",
		"__complete claims ni":         "list default/resourceclaims; list deviceclasses",
		"__complete claims -n d":       "list namespaces",
		"__complete topology --node= ": "list resourceslices",
		"__complete nodes -o js":       "",
		"__complete --context= ":       "",
	} {
		s.run(strings.Fields(args)...)
		test.Eq(t, want, strings.Join(s.server.Asked, "; "), test.Sprintf("kubectl rdma %s asks", args))
	}
	s.server.Forbidden = []string{"nodes", "pods", "resourceclaims", "default/events"}
	r := s.run("why", "trainer")
	if r.code != exitOK || !strings.Contains(r.stdout, "claims: default/infer (7)") ||
		!strings.Contains(r.stdout, "Not known:\n  - resourceclaims is forbidden") {
		t.Errorf("who may read claims of the own namespace alone learns nothing: %+v", r)
	}
	r = s.run("devices")
	if r.code != exitOK || !strings.Contains(r.stdout, "node1") ||
		!strings.Contains(r.stderr, "Warning: the answer is incomplete: resourceclaims is forbidden") {
		t.Errorf("without the right to read claims: %+v", r)
	}
	s.server.Forbidden = []string{"list pods", "list resourceslices", "list deviceclasses"}
	for args, want := range map[string]string{
		"nodes node1":            "node1   True    Unknown   ?         ?      ?      ?",
		"policy test -f main.go": "error: find the pods of the driver: pods is forbidden", // no node without one
		"claims -n fabric":       "Nothing found in what could be read",
	} {
		if strings.HasPrefix(args, "policy") {
			s.server.Forbidden = []string{"list pods"}
		}
		if r := s.run(strings.Fields(args)...); !strings.Contains(r.stdout+r.stderr, want) {
			t.Errorf("kubectl rdma %s without rights: %+v, want %q", args, r, want)
		}
		s.server.Forbidden = []string{"list pods", "list resourceslices", "list deviceclasses"}
	}
	s.server.Forbidden = []string{"list resourceslices"}
	if r := s.run("devices"); r.code != exitError ||
		!strings.HasPrefix(r.stderr, "Error from server (Forbidden): list resourceslices: ") {
		t.Errorf("without the right to read slices: %+v", r)
	}
}

// TestCompletion: the contract of kubectl with kubectl_complete-rdma, which passes what
// was typed to __complete.
func TestCompletion(t *testing.T) {
	f, _ := fleet.Short(t)
	s := newSession(t, f)
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{"no"}, []string{"nodes"}},
		{[]string{"why", "tr"}, []string{"trainer"}},
		{[]string{"why", "trainer", ""}, nil},
		{[]string{"nodes", "node1", "no"}, []string{"node2", "node3"}},
		{[]string{"claims", ""}, []string{"infer", "nics", "train-a", "train-b"}},
		{[]string{"devices", "--class", ""}, []string{"hca.rdma.dev", "shared.hca.rdma.dev", "vf.hca.rdma.dev"}},
		{[]string{"claims", "--namespace", "f"}, []string{"fabric"}},
		{[]string{"nodes", "--context", ""}, []string{"other", "test"}},
	} {
		var names []string
		for line := range strings.Lines(s.run(append([]string{"__complete"}, tc.args...)...).stdout) {
			if !strings.HasPrefix(line, ":") {
				name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
				names = append(names, name)
			}
		}
		test.SliceEqOp(t, tc.want, names, test.Sprintf("complete %q", tc.args))
	}
}

// TestFormats: JSON and YAML say the same, with the kind.
func TestFormats(t *testing.T) {
	f := fleet.Mixed(t)
	f.Pods = append(f.Pods, fleet.Pod("train"))
	s := newSession(t, f)
	for args, kind := range map[string]string{
		"status": "PodList", "nodes": "NodeList", "devices": "DeviceList", "claims": "ClaimList", "topology": "TopologyList",
	} {
		var list struct {
			Kind  string
			Items []map[string]any
		}
		fromYAML := s.ok(args, "-o", "yaml")
		asJSON, err := yaml.YAMLToJSON([]byte(fromYAML))
		must.NoError(t, err)
		var again any
		var direct any
		if json.Unmarshal(asJSON, &again) != nil || json.Unmarshal([]byte(s.ok(args, "-o", "json")), &direct) != nil {
			t.Errorf("%s is no JSON", args)
		}
		a, _ := json.Marshal(again)
		b, _ := json.Marshal(direct)
		if err := json.Unmarshal(asJSON, &list); err != nil || list.Kind != kind || len(list.Items) == 0 ||
			!bytes.Equal(a, b) {
			t.Errorf("%s: kind %s with %d items, %v; want %s, the same in JSON and YAML", args, list.Kind, len(list.Items), err,
				kind)
		}
	}
	if svg := s.ok("topology", "--node=node1", "-o", "svg"); !strings.HasPrefix(svg, "<svg") &&
		!strings.HasPrefix(svg, "<?xml") {
		t.Errorf("no picture: %.80s", svg)
	}
}

// TestHostileNames: any driver may write into a slice what a terminal acts on, and no command passes that on.
func TestHostileNames(t *testing.T) {
	const hostile = "mlx5\x1b]0;x\x07\u202e\nnode9  Free \t\u009b"
	f := fleet.Mixed(t)
	users := fleet.On(fleet.Pod("train"), "node1")
	users.Labels = map[string]string{"jobset.sigs.k8s.io/jobset-name": hostile}
	users.Status.ContainerStatuses[0].State.Waiting.Reason = hostile
	f.Pods = append(f.Pods, users)
	for _, slice := range f.Lists().Slices {
		for _, d := range slice.Spec.Devices {
			for name, a := range d.Attributes {
				if a.StringValue != nil && name != "function" && name != "protocol" {
					d.Attributes[name] = resourceapi.DeviceAttribute{StringValue: new(hostile)}
				}
			}
		}
	}
	s := newSession(t, f)
	for _, args := range []string{"nodes -o wide", "devices -o wide", "devices -o json", "devices -o yaml",
		"claims -A -o wide", "status", "status -o json", "topology",
		"topology --node=node1 -o svg", "why waits", "why waits -o yaml"} {
		r := s.run(strings.Fields(args)...)
		test.NotEq(t, "", r.stdout+r.stderr, test.Sprintf("kubectl rdma %s says nothing", args))
		for _, text := range []string{r.stdout, r.stderr} {
			if i := strings.IndexFunc(text, func(r rune) bool {
				return r != '\n' && r != '\t' &&
					!unicode.IsGraphic(r)
			}); i >= 0 {
				t.Errorf("kubectl rdma %s: a terminal acts on %q", args, text[max(i-60, 0):min(i+20, len(text))])
			}
			test.StrNotContains(t, text, "\nnode9  Free",
				test.Sprintf("kubectl rdma %s: an attribute makes a row", args))
		}
	}
	if out := s.run("devices", "--node", "\x1b[2J"); strings.Contains(out.stdout+out.stderr, "\x1b") {
		t.Errorf("an argument reaches the terminal: %+v", out)
	}
}

// TestRules: what a DeviceTaintRule does to devices is shown in the version that the API server serves. Without any
// version there are no rules. If nobody can say which rules there are, that is said.
func TestRules(t *testing.T) {
	f := fleet.New(t)
	f.Node("node1", "roce-sriov", "")
	f.Pending("nic", controlplane.Claim(controlplane.Want("nic", "hca.rdma.dev")))
	f.Pods = append(f.Pods, fleet.Pod("nic"))
	f.Rule("too-wide", "rdma.dev", "example.com/maintenance", resourceapi.DeviceTaintEffectNoSchedule)
	s := newSession(t, f)
	shows := map[string]string{
		"why trainer": "tainted example.com/maintenance (NoSchedule) by DeviceTaintRule too-wide",
		"devices":     "example.com/maintenance:NoSchedule (rule too-wide)",
		"nodes":       "10 (rule too-wide)",
		"topology":    "example.com/maintenance:NoSchedule (rule too-wide)",
	}
	for _, versions := range [][]string{{"v1"}, {"v1beta2"}, {"v1alpha3"}, {"v1", "v1beta2"}} {
		s.server.RuleVersions = versions
		for args, want := range shows {
			test.StrContains(t, s.ok(strings.Fields(args)...), want,
				test.Sprintf("rules in %v: kubectl rdma %s lacks", versions, args))
		}
	}
	s.server.RuleVersions = nil
	for args, not := range shows {
		test.StrNotContains(t, s.ok(strings.Fields(args)...), not,
			test.Sprintf("without rules: kubectl rdma %s", args))
	}
	s.server.RuleVersions = []string{"v1"}
	s.server.Forbidden = []string{"devicetaintrules"}
	const unknown = "cannot read DeviceTaintRules: devicetaintrules is forbidden: User \"jane\" cannot list resource " +
		"\"devicetaintrules\"; a rule may keep devices away"
	for args := range shows {
		if r := s.run(strings.Fields(args)...); r.code != exitOK || !strings.Contains(r.stdout+r.stderr, unknown) {
			t.Errorf("kubectl rdma %s, without the right to list rules: %+v", args, r)
		}
	}
}

// TestHints: an error of flags or arguments says where the help is, and its lines fit a terminal. Others say no such
// thing.
func TestHints(t *testing.T) {
	s := newSession(t, fleet.Mixed(t))
	for args, says := range map[string]string{
		"devices --bogus": "see kubectl rdma devices --help", "why": "see kubectl rdma why --help",
		"nope": "see kubectl rdma --help", "policy nope": "see kubectl rdma policy --help",
	} {
		if r := s.run(strings.Fields(args)...); r.code != exitError || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: exit code %d, %s", args, r.code, r.stderr)
		}
	}
	if r := s.run("nodes", "absent"); r.code != exitError || strings.Contains(r.stderr, "--help") {
		t.Errorf("a node that is not there: exit code %d, %s", r.code, r.stderr)
	}
	for line := range strings.Lines(s.ok("why", "--help")) {
		if len(line) > 81 && !strings.HasPrefix(line, "  kubectl") && !strings.HasPrefix(line, "  helm") &&
			!strings.Contains(line, "http://") {
			t.Errorf("the line is longer than 80: %s", line)
		}
	}
}
