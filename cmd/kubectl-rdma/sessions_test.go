package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// clusters are those of the files in testdata/sessions.
var clusters = map[string]func(*testing.T) *fleet.Fleet{
	"mixed":         func(t *testing.T) *fleet.Fleet { return fleet.Mixed(t) },
	"empty":         func(t *testing.T) *fleet.Fleet { return fleet.New(t) },
	"jobs":          func(t *testing.T) *fleet.Fleet { return fleet.Jobs(t) },
	"short":         short,
	"rules":         tooWide,
	"drain":         crowded,
	"drain-foreign": withForeignRules,
	"planned":       func(t *testing.T) *fleet.Fleet { return railsGPU(t) },
	"rails":         railsHeld,
	"planned-busy": func(t *testing.T) *fleet.Fleet {
		f := railsGPU(t)
		f.Allocate("node1", "other",
			controlplane.Claim(controlplane.Want("nic", "hca.rdma.dev", fleet.RDMA+".?rail.orValue(-1) == 3")))
		return f
	},
	"planned-parts": func(t *testing.T) *fleet.Fleet {
		f, template := short(t), resourceapi.ResourceClaimTemplate{}
		template.Namespace, template.Name, template.UID = "default", "one-nic", "one-nic"
		template.Spec.Spec.Devices = controlplane.Claim(controlplane.Want("nic", "hca.rdma.dev"))
		f.Templates = append(f.Templates, template)
		return f
	},
}

func short(t *testing.T) *fleet.Fleet {
	f, _ := fleet.Short(t)
	return f
}

// tooWide is a cluster with a rule that selects all HCAs, and a pod that waits for one.
func tooWide(t *testing.T) *fleet.Fleet {
	f := fleet.New(t)
	f.Node("node1", "roce-sriov", "")
	f.Pending("nic", controlplane.Claim(controlplane.Want("nic", "hca.rdma.dev")))
	f.Pods = append(f.Pods, fleet.Pod("nic"))
	f.Rule("too-wide", "rdma.dev", "example.com/maintenance", resourceapi.DeviceTaintEffectNoSchedule)
	return f
}

// crowded is a cluster with an HCA that claims have in every way: its VF, shares of it, and in a group.
func crowded(t *testing.T) *fleet.Fleet {
	f := fleet.Mixed(t)
	f.Node("node4", "roce-sriov", "groups: [{name: all, shares: 4, selectors: [{cel: {expression: '"+fleet.RDMA+
		".function == \"pf\"'}}]}]\nrules:\n- {name: all, publish: shared, shares: 4}\n")
	f.Class("group", `device.driver == "rdma.dev" && device.attributes["rdma.dev"].?group.orValue("") == "all"`)
	f.Allocate("node4", "grouped", controlplane.Claim(controlplane.Want("all", "group")))
	tolerant := f.Allocate("node4", "tolerant", controlplane.Claim(controlplane.Want("share", "shared.hca.rdma.dev",
		fleet.RDMA+`.ibdev == "mlx5_0"`)))
	tolerant.Status.Allocation.Devices.Results[0].Tolerations = []resourceapi.DeviceToleration{{
		Key: model.DrainKey, Operator: resourceapi.DeviceTolerationOpExists,
		Effect: resourceapi.DeviceTaintEffectNoExecute,
	}}
	// The scheduler takes a toleration without effect for one of all effects, and the controller that evicts for none.
	f.Claims["vf"].Status.Allocation.Devices.Results[0].Tolerations = []resourceapi.DeviceToleration{
		{Operator: resourceapi.DeviceTolerationOpExists},
	}
	f.Claims["share"].Status.Allocation.Devices.Results[0].Tolerations = []resourceapi.DeviceToleration{{
		Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute,
		TolerationSeconds: new(int64(25)),
	}}
	return f
}

// withForeignRules has two rules of somebody else: the first has the name of a drain's rule, the second its label, and
// selects what no rule of a drain selects.
func withForeignRules(t *testing.T) *fleet.Fleet {
	f := crowded(t)
	f.Rule("rdma-drain.node.node1", "rdma.dev", model.DrainKey, resourceapi.DeviceTaintEffectNoSchedule)
	f.Rule("maintenance", "rdma.dev", model.DrainKey, resourceapi.DeviceTaintEffectNoSchedule).Labels =
		map[string]string{model.DrainKey: "node"}
	return f
}

// railsHeld is a cluster with one claim for rail 3, administrators' access to rails 4 and 5, and a claim and a claim
// template for GPUs.
func railsHeld(t *testing.T) *fleet.Fleet {
	f := railsGPU(t, "node2")
	for name, rail := range map[string]string{"other": "3", "admin4": "4", "admin5": "5"} {
		claim := f.Allocate("node1", name,
			controlplane.Claim(controlplane.Want("nic", "hca.rdma.dev", fleet.RDMA+".?rail.orValue(-1) == "+rail)))
		claim.Status.Allocation.Devices.Results[0].AdminAccess = new(name != "other")
	}
	gpu := controlplane.Claim(controlplane.Want("gpu", "gpu.nvidia.com"))
	f.Pending("gpu", gpu)
	template := resourceapi.ResourceClaimTemplate{}
	template.Namespace, template.Name, template.UID = "default", "gpus", "gpus"
	template.Spec.Spec.Devices = gpu
	f.Templates = append(f.Templates, template)
	return f
}

// railsGPU is a cluster for the example of docs/nccl.md, without its class.
func railsGPU(t *testing.T, others ...string) *fleet.Fleet {
	f := fleet.New(t)
	f.Class("gpu.nvidia.com", `device.driver == "`+fleet.GPUDriver+`"`)
	for _, node := range append([]string{"node1"}, others...) {
		f.Node(node, "hgx-h100", `rules:
- name: storage
  publish: shared
  selectors: [{cel: {expression: '!has(`+fleet.RDMA+`.pcieSwitch)'}}]
- {name: compute, rails: 8}
`)
	}
	return f
}

// TestSessions runs the commands of each file in testdata/sessions on a cluster, and compares all that they print. A
// line with "$" is a command, one with "%" is for transcript.do, and one with "#" a comment. The other lines are
// output: "  " stands before standard output, "! " before standard error, "= " before the rest.
func TestSessions(t *testing.T) {
	for name, cluster := range clusters {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata/sessions", name+".txt")
			script, err := os.ReadFile(path)
			must.NoError(t, err)
			s := &transcript{session: newSession(t, cluster(t))}
			for line := range strings.Lines(string(script)) {
				line = strings.TrimSuffix(line, "\n")
				command, isCommand := strings.CutPrefix(line, "$ kubectl rdma ")
				what, isOther := strings.CutPrefix(line, "% ")
				if isCommand || isOther || strings.HasPrefix(line, "#") {
					fmt.Fprintln(&s.out, line)
				}
				if isCommand {
					s.command(words(strings.ReplaceAll(command, `\x1b`, "\x1b")))
				} else if isOther {
					s.do(what)
				}
			}
			golden.File(t, path, s.out.Bytes())
		})
	}
}

// transcript is a session whose output is written down.
type transcript struct {
	*session
	out bytes.Buffer
	// quiet leaves out the output of commands.
	quiet bool
}

// written writes lines behind what marks them.
func (s *transcript) written(mark, lines string) {
	for line := range strings.Lines(lines) {
		fmt.Fprintln(&s.out, strings.TrimRight(mark+line, " \n"))
	}
}

func (s *transcript) command(args []string) {
	r := s.run(args...)
	if s.quiet {
		return
	}
	s.written("  ", r.stdout)
	s.written("! ", r.stderr)
	if r.code != exitcode.OK {
		s.written("= ", fmt.Sprintf("exit code %d", r.code))
	}
}

// do sets what the commands after it find, or shows what the last command did.
func (s *transcript) do(what string) {
	verb, rest, _ := strings.Cut(what, " ")
	switch verb {
	case "forbid": // what the user may not do
		s.server.Forbidden = strings.Split(rest, ", ")
	case "versions": // in which DeviceTaintRules are served
		s.server.RuleVersions = strings.Fields(rest)
	case "stdin": // a line, or a file
		s.stdin = rest + "\n"
		if path, ok := strings.CutPrefix(rest, "< "); ok {
			data, err := os.ReadFile(path)
			must.NoError(s.t, err)
			s.stdin = string(data)
		}
	case "quiet", "loud": // whether commands show their output
		s.quiet = verb == "quiet"
	case "asked": // for what the API server was asked
		s.written("= ", strings.Join(s.server.Asked, "\n"))
	case "writes": // what it was asked to change
		for _, asked := range s.server.Asked {
			if !strings.HasPrefix(asked, "list ") && !strings.HasPrefix(asked, "get ") {
				s.written("= ", asked)
			}
		}
	case "rules": // that it has
		for _, r := range s.server.Rules() {
			s.written("= ", fmt.Sprintf("%s %s %s", r.Name, r.Spec.Taint.Effect, r.APIVersion))
		}
	default:
		s.t.Fatalf("%% %s: want forbid, versions, stdin, quiet, loud, asked, writes or rules", what)
	}
}
