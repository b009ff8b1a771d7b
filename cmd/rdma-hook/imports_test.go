package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
)

// Two rules on what rdma-hook links, with their reasons.
const (
	foreign = "rdma-hook runs on the host in every container start: nothing but the standard library, x/sys and its " +
		"own logic"
	slow = "its initialisation makes every start slower; see BenchmarkStart"
)

// allowed are the packages outside of the standard library.
var allowed = []string{
	"github.com/rdma-dev/dra-driver-rdma/cmd/rdma-hook",
	"github.com/rdma-dev/dra-driver-rdma/internal/base/bytesize",
	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode",
	"github.com/rdma-dev/dra-driver-rdma/internal/base/mountinfo",
	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding",
	"github.com/rdma-dev/dra-driver-rdma/internal/base/thread",
	"github.com/rdma-dev/dra-driver-rdma/internal/hook",
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args",
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/rdmacore",
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record",
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/usable",
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podcgroup",
	"golang.org/x/sys/unix",
}

// banned are the packages of the standard library that someone might reach for.
var banned = []string{
	"flag", "log", "log/slog", "net", "net/http", "os/exec", "regexp", "runtime/debug", "text/template",
}

// deps lists what a program links; packages of the standard library come
// without a dot in their first element.
func deps(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", pkg).Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", pkg, err)
	}
	return strings.Fields(string(out))
}

// violations maps each package that breaks a rule to the reason of the rule.
func violations(packages []string) map[string]string {
	found := map[string]string{}
	for _, p := range packages {
		first, _, _ := strings.Cut(p, "/")
		switch {
		case slices.Contains(banned, p):
			found[p] = slow
		case strings.Contains(first, ".") && !slices.Contains(allowed, p):
			found[p] = foreign
		}
	}
	return found
}

func TestImports(t *testing.T) {
	packages := deps(t, ".")
	for p, why := range violations(packages) {
		t.Errorf("rdma-hook links %s: %s", p, why)
	}
	for _, p := range allowed { // a list that never shrinks hides what is gone
		test.True(t, slices.Contains(packages, p), test.Sprintf("%s is allowed, but not linked", p))
	}
}

// The check must find what is planted: a foreign module and a slow package.
func TestImportsBites(t *testing.T) {
	found := violations(deps(t, "./testdata/planted"))
	if found["sigs.k8s.io/yaml"] != foreign || found["net/http"] != slow || found["log"] != slow {
		t.Errorf("in testdata/planted the check finds only %v", found)
	}
}
