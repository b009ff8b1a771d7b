package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/why"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
)

func docs(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/kubectl-rdma.md")
	must.NoError(t, err)
	return string(b)
}

var console = regexp.MustCompile("(?s)```console\n\\$ kubectl rdma ([^\n]*)\n(.*?)```\n")

// TestDocsOutput: what docs/kubectl-rdma.md shows is what the program prints.
func TestDocsOutput(t *testing.T) {
	mixed := newSession(t, fleet.Mixed(t))
	short, _ := fleet.Short(t)
	waiting := newSession(t, short)
	jobs := newSession(t, fleet.Jobs(t))
	blocks := console.FindAllStringSubmatch(docs(t), -1)
	must.GreaterEq(t, 5, len(blocks), must.Sprintf("%d outputs in the document", len(blocks)))
	for _, block := range blocks {
		s := mixed
		switch command, pod, _ := strings.Cut(block[1], " "); {
		case command == "why" && pod == "trainer":
			s = waiting
		case command == "why", command == "status":
			s = jobs
		}
		test.Eq(t, block[2], s.ok(words(block[1])...), test.Sprintf("kubectl rdma %s prints", block[1]))
	}
}

// words splits a command as a shell does that knows single quotes alone.
func words(command string) []string {
	var out []string
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

var rowInDocs = regexp.MustCompile("(?m)^\\| (`\\w+`(?:, `\\w+`)*) \\|")

// TestDocsReasons: the tables have every verdict and every reason of a finding.
func TestDocsReasons(t *testing.T) {
	var want []string
	for _, v := range []why.Verdict{
		why.VerdictFine, why.VerdictImpaired, why.VerdictUnallocated, why.VerdictSchedulable,
		why.VerdictUnprepared, why.VerdictBroken, why.VerdictNoClaims, why.VerdictDone, why.VerdictEnding,
		why.VerdictUnknown,
	} {
		want = append(want, string(v))
	}
	for _, k := range why.Kinds.Kinds {
		want = append(want, k.ID)
	}
	commands := map[string]bool{}
	for _, c := range newRoot(genericiooptions.NewTestIOStreamsDiscard()).Commands() {
		commands[c.Name()] = true
	}
	var got []string
	for _, m := range rowInDocs.FindAllStringSubmatch(docs(t), -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			if name = strings.Trim(name, "`"); !commands[name] {
				got = append(got, name)
			}
		}
	}
	for _, list := range []*[]string{&want, &got} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	test.SliceEqOp(t, want, got, test.Sprint("docs/kubectl-rdma.md explains"))
}
