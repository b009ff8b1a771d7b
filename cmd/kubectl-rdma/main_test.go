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

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
)

type result struct {
	code           int
	stdout, stderr string
}

// session runs commands on one cluster.
type session struct {
	t          *testing.T
	server     *fleet.Server
	kubeconfig string
	// stdin is what commands read.
	stdin string
}

func newSession(t *testing.T, f *fleet.Fleet) *session {
	t.Setenv("KUBECONFIG", "")
	s := f.Serve()
	return &session{t: t, server: s, kubeconfig: s.Kubeconfig()}
}

// run runs the program as "kubectl rdma ARGS" does.
func (s *session) run(args ...string) result {
	s.server.Asked = nil
	var stdout, stderr bytes.Buffer
	// What is completed is the last argument, so the flag comes before the others.
	at := 0
	if len(args) > 0 && args[0] == cobra.ShellCompRequestCmd {
		at = 1
	}
	args = slices.Insert(slices.Clone(args), at, "--kubeconfig="+s.kubeconfig)
	code := run(context.Background(), args, strings.NewReader(s.stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// ok runs a command that must work and say nothing on standard error.
func (s *session) ok(args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	if r.code != exitcode.OK || r.stderr != "" {
		s.t.Fatalf("kubectl rdma %s: exit code %d, %s", strings.Join(args, " "), r.code, r.stderr)
	}
	return r.stdout
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
	if svg := s.ok("topology", "node1", "-o", "svg"); !strings.HasPrefix(svg, "<svg") &&
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
		"topology node1 -o svg", "why waits", "why waits -o yaml"} {
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
	if out := s.run("devices", "\x1b[2J"); strings.Contains(out.stdout+out.stderr, "\x1b") {
		t.Errorf("an argument reaches the terminal: %+v", out)
	}
}

// TestNoAnswer: without an API server, one sentence says which one, why, and what to do.
func TestNoAnswer(t *testing.T) {
	s := newSession(t, fleet.New(t))
	for server, why := range map[string]string{
		"http://127.0.0.1:1": "connection refused", "http://nobody.invalid": `find "nobody.invalid": `,
	} {
		for _, command := range []string{"nodes", "drain node1", "why pod", "test nodes a b --image=i"} {
			r := s.run(append(strings.Fields(command), "--server="+server)...)
			test.Eq(t, exitcode.Failed, r.code)
			test.StrHasPrefix(t, "error: the API server "+server+" does not answer: "+why, r.stderr)
			test.StrHasSuffix(t, "; see whether kubectl cluster-info works with the same flags\n", r.stderr)
			test.Eq(t, 1, strings.Count(r.stderr, "\n"))
		}
	}
}

// TestHelpFits: the lines of a help fit a terminal, but for commands and addresses.
func TestHelpFits(t *testing.T) {
	for line := range strings.Lines(newSession(t, fleet.New(t)).ok("why", "--help")) {
		if len(line) > 81 && !strings.HasPrefix(line, "  kubectl") && !strings.HasPrefix(line, "  helm") &&
			!strings.Contains(line, "http://") {
			t.Errorf("the line is longer than 80: %s", line)
		}
	}
}
