package importrules_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/importrules"
)

// floor makes the rule of a floor of the house: its packages import one another, and what is below them.
func floor(name, why string, of []string, below ...string) importrules.Ban {
	return importrules.Ban{
		Name: name, Why: why, Of: of, Imports: []string{module + "/..."}, Except: append(below, of...),
	}
}

const (
	base    = module + "/internal/base/..."
	kernel  = module + "/internal/kernel/..."
	hook    = module + "/internal/hook/..."
	file    = module + "/internal/hostconfig"
	gen     = module + "/internal/gen/..."
	kube    = module + "/internal/kube/..."
	inspect = module + "/internal/inspect/..."
	driver  = module + "/pkg/dra/..."
)

// api are the packages that other repositories may import.
var api = []string{module + "/pkg/rdma", module + "/pkg/cdi", module + "/pkg/topology", module + "/pkg/api/..."}

func above(floors ...string) []string { return append(floors, api...) }

// floors are the rules of the floors, from the ground up. docs/dev/layout.md begins with them.
var floors = []importrules.Ban{
	floor("base", "the ground floor serves all others: it knows nothing of RDMA and of this project", []string{base}),
	floor("pkg", "the Go API is for other repositories too: it stands on the ground floor, and links no program's parts",
		api, base, module+"/internal/hook/args"),
	floor("kernel", "a subsystem of Linux knows no claim, no spec and no configuration", []string{kernel},
		base, module+"/pkg/rdma"),
	floor("hook", "the hook is part of every container start: it knows its own arguments and the kernel's cgroups",
		[]string{hook}, base, module+"/internal/kernel/podcgroup"),
	floor("hostconfig", "one file for cdi-gen and the driver: it knows neither", []string{file}, above(base, hook)...),
	floor("gen", "what only cdi-gen has knows no Kubernetes", []string{gen}, above(base, kernel, hook, file)...),
	floor("kube", "what only the driver has, beside its five parts, knows none of them", []string{kube},
		above(base, kernel, hook, file)...),
	floor("driver", "the driver knows nothing of cdi-gen and of kubectl rdma", []string{driver},
		above(base, kernel, hook, file, kube)...),
	floor("inspect", "what kubectl rdma answers follows from an API server's lists: it knows no host and no driver",
		[]string{inspect}, above(base)...),
}

// TestLinked: what each program links is a golden file, so that a change shows in its diff what it makes programs carry.
func TestLinked(t *testing.T) {
	for _, program := range []string{"cdi-gen", "dra-driver", "kubectl-rdma", "rdma-hook"} {
		graph := load(t, "./cmd/"+program)
		var out bytes.Buffer
		for _, path := range graph.Linked() {
			fmt.Fprintln(&out, path)
		}
		golden.Bytes(t, "linked/"+program+".txt", out.Bytes())
	}
}
