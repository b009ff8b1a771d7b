package inspect_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/why"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// without returns what was read if a kind of objects cannot be read.
func (s world) without(look string) world {
	less, q := *s.cluster, s.question
	less.Unread = slices.Clone(less.Unread)
	if look == string(model.OwnClaims) { // who may list all may list those of a namespace
		less.Unread = append(less.Unread, model.Unread{Kind: model.Claims})
	}
	less.Unread = append(less.Unread, model.Unread{Kind: model.Kind(look), Why: look + " is forbidden"})
	switch model.Kind(look) {
	case model.OwnClaims:
		less.Claims = nil
	case model.Claims:
		of := func(c resourceapi.ResourceClaim) bool { return c.Namespace != q.Pod.Namespace }
		less.Claims = slices.DeleteFunc(slices.Clone(less.Claims), of)
	case model.Classes:
		less.Classes = nil
	case model.Slices:
		less.Slices = nil
	case model.Rules:
		less.Rules = nil
	case model.Nodes:
		less.Nodes = nil
	case model.Pods:
		less.Pods = nil
	case model.Templates:
		less.Templates, q.Templates = nil, nil
	case model.Events:
		less.Events, q.Events = nil, nil
	case model.Namespace:
		q.NamespaceLabels = nil
	default:
		panic("no kind of object: " + look)
	}
	return world{name: s.name, cluster: &less, question: q}
}

// world is what was read, and a question about it.
type world struct {
	name     string
	cluster  *model.Cluster
	question why.Question
}

// worlds are the scenarios, and the rows of the input.
func worlds(t *testing.T) (out []world) {
	for _, s := range scenarios(t) {
		out = append(out, world{s.name, s.cluster(t), s.Question})
	}
	for _, r := range inputRows(t) {
		in := newInput(t, r.Waits)
		out = append(out, world{r.Name, &in.Cluster, why.Question{Pod: in.Pod}})
	}
	return out
}

// TestLooks: no answer names a cause, a note or says good that it has not seen. Each kind of them declares its looks.
// Where a look fails, what is said is what was said before by kinds without this look, or it says without what. Each
// kind must be in the answer to a scenario.
func TestLooks(t *testing.T) {
	shown := map[string]bool{why.Unread.ID: true}
	looks := map[string]bool{}
	for _, k := range why.Kinds.Kinds {
		for _, look := range k.Looks {
			looks[look] = look != "pod" // without it there is no answer
		}
	}
	for _, s := range worlds(t) {
		a, err := why.Explain(t.Context(), s.cluster, s.question)
		must.NoError(t, err)
		shown[string(a.Verdict)] = true
		for _, f := range a.Findings {
			shown[f.ID] = true
		}
		for look, fails := range looks {
			if fails {
				s.without(look).compare(t, look, a)
			}
		}
	}
	declared := ""
	for _, k := range why.Kinds.Kinds {
		test.True(t, shown[k.ID], test.Sprintf("a scenario in testdata/why shows %s", k.ID))
		test.SliceNotEmpty(t, k.Looks, test.Sprintf("looks of %s", k.ID))
		declared += k.ID + ": " + strings.Join(k.Looks, ", ") + "\n"
	}
	golden.Bytes(t, "looks.txt", []byte(declared))
}

// lacked finds the looks that a sentence says it lacks.
var lacked = regexp.MustCompile("as far as can be seen without ([a-z ]+)")

// compare compares what is answered without a look with the answer of one who sees all.
func (s world) compare(t *testing.T, look string, all *why.Answer) {
	t.Helper()
	less, err := why.Explain(t.Context(), s.cluster, s.question)
	must.NoError(t, err)
	test.SliceContains(t, less.Unread, look+" is forbidden")
	saysSo := func(sentence string) bool {
		return slices.ContainsFunc(lacked.FindAllStringSubmatch(sentence, -1), func(names []string) bool {
			return slices.Contains(strings.Split(names[1], " and "), look)
		})
	}
	unseen := false
	for _, f := range less.Findings {
		unseen = unseen || f.Severity == finding.NotSeen
		kind := why.Kinds.Find(f.ID)
		must.NotNil(t, kind, must.Sprintf("%s is declared", f.ID))
		same := func(o finding.Finding) bool {
			return o.ID == f.ID && o.Severity == f.Severity && strings.HasPrefix(o.Message, f.Message)
		}
		if f.Severity != finding.NotSeen && !saysSo(f.Message) &&
			(slices.Contains(kind.Looks, look) || !slices.ContainsFunc(all.Findings, same)) {
			t.Errorf("%s, without %s, still says %s %s: %s", s.name, look, f.Severity, f.ID, f.Message)
		}
	}
	verdict := why.Kinds.Find(string(less.Verdict))
	if verdict == nil || unseen || saysSo(less.Summary) {
		return
	}
	if less.Verdict != all.Verdict || slices.Contains(verdict.Looks, look) && len(less.Findings) == 0 {
		t.Errorf("%s, without %s, says %s: %s", s.name, look, less.Verdict, less.Summary)
	}
}
