package inspect_test

import (
	"fmt"
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

// without returns what was read if the kinds of objects of a look cannot be read. "a or b" are two kinds.
func without(c *model.Cluster, q why.Question, look string) (*model.Cluster, why.Question) {
	less := *c
	less.Unread = slices.Clone(c.Unread)
	for kind := range strings.SplitSeq(look, model.Or) {
		if kind == string(model.OwnClaims) { // who may list all may list those of a namespace
			less.Unread = append(less.Unread, model.Unread{Kind: model.Claims})
		}
		less.Unread = append(less.Unread, model.Unread{Kind: model.Kind(kind), Why: kind + " is forbidden"})
		switch model.Kind(kind) {
		case model.OwnClaims:
			less.Claims = nil
		case model.Claims:
			of := func(c resourceapi.ResourceClaim) bool { return c.Namespace != q.Pod.Namespace }
			less.Claims = slices.DeleteFunc(slices.Clone(c.Claims), of)
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
			panic("no kind of object: " + kind)
		}
	}
	return &less, q
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

// TestLooks: no answer names a cause or says good that it has not seen. Each kind of cause, and each good answer,
// declares its looks. Where one of them fails, the cause is not given, or it says without what. Each kind must be in
// the answer to a scenario.
func TestLooks(t *testing.T) {
	shown := map[string]bool{why.Unread.ID: true}
	for _, s := range worlds(t) {
		a, err := why.Explain(t.Context(), s.cluster, s.question)
		must.NoError(t, err)
		for _, f := range a.Findings {
			shown[f.ID] = true
			eachLook(t, s, f.ID, func(without string, a *why.Answer) error {
				i := slices.IndexFunc(a.Findings, func(o finding.Finding) bool { return o.ID == f.ID })
				if i >= 0 && a.Findings[i].Severity.Bad() && f.Severity.Bad() && !strings.Contains(a.Findings[i].Message, without) {
					return fmt.Errorf("still says %s: %s", f.ID, a.Findings[i].Message)
				}
				return nil
			})
		}
		good := func(f finding.Finding) bool { return !f.Severity.Bad() }
		if why.Kinds.Find(string(a.Verdict)) == nil || slices.ContainsFunc(a.Findings, good) != (len(a.Findings) > 0) {
			continue
		}
		shown[string(a.Verdict)] = true
		eachLook(t, s, string(a.Verdict), func(without string, b *why.Answer) error {
			if a.Verdict == b.Verdict && !strings.Contains(b.Summary, without) && !slices.ContainsFunc(b.Findings, unseen) {
				return fmt.Errorf("still says %s: %s", a.Verdict, b.Summary)
			}
			return nil
		})
	}
	looks := ""
	for _, k := range why.Kinds.Kinds {
		test.True(t, shown[k.ID], test.Sprintf("a scenario in testdata/why shows %s", k.ID))
		test.SliceNotEmpty(t, k.Looks, test.Sprintf("looks of %s", k.ID))
		looks += k.ID + ": " + strings.Join(k.Looks, ", ") + "\n"
	}
	golden.Bytes(t, "looks.txt", []byte(looks))
}

func unseen(f finding.Finding) bool { return f.Severity == finding.NotSeen }

// eachLook asks again without each look of a kind. check gets what an answer says that was not seen.
func eachLook(t *testing.T, s world, id string, check func(string, *why.Answer) error) {
	t.Helper()
	kind := why.Kinds.Find(id)
	must.NotNil(t, kind, must.Sprintf("%s is declared", id))
	for _, look := range kind.Looks {
		if look == "pod" { // then there is no answer
			continue
		}
		less, q := without(s.cluster, s.question, look)
		a, err := why.Explain(t.Context(), less, q)
		must.NoError(t, err)
		unread, _, _ := strings.Cut(look, model.Or)
		test.SliceContains(t, a.Unread, unread+" is forbidden")
		if err := check(unread, a); err != nil {
			t.Errorf("%s, without %s, %v", s.name, look, err)
		}
	}
}
