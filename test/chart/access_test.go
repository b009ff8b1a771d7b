package chart

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
)

// rights lists what the roles of a release allow, those of hooks too, by who has them: one line for each namespace, API
// group, resource, verb and names, so that nothing hides in a list or a wildcard. The rights of a role that nobody has
// stand under its name.
func rights(t *testing.T, args ...string) map[string][]string {
	t.Helper()
	rules, holders := map[string][]rbacv1.PolicyRule{}, map[string][]string{}
	bind := func(role rbacv1.RoleRef, namespace string, subjects []rbacv1.Subject) {
		for _, s := range subjects {
			name := namespace + role.Kind + " " + role.Name
			holders[name] = append(holders[name], strings.Join([]string{s.Kind, s.Namespace, s.Name}, " "))
		}
	}
	for _, obj := range objects(t, render(t, args...)) {
		switch o := obj.(type) {
		case *rbacv1.ClusterRole:
			rules["ClusterRole "+o.Name] = o.Rules
		case *rbacv1.Role:
			rules[o.Namespace+"Role "+o.Name] = o.Rules
		case *rbacv1.ClusterRoleBinding:
			bind(o.RoleRef, "", o.Subjects)
		case *rbacv1.RoleBinding:
			bind(o.RoleRef, o.Namespace, o.Subjects)
		}
	}
	found := map[string][]string{}
	for role, allowed := range rules {
		where, _, _ := strings.Cut(role, "Role")
		if where == "Cluster" {
			where = "cluster"
		}
		if holders[role] == nil {
			holders[role] = []string{"nobody, by " + role}
		}
		for _, who := range holders[role] {
			found[who] = append(found[who], lines(where, allowed)...)
			slices.Sort(found[who])
		}
	}
	return found
}

// lines lists rules, one for each verb and resource.
func lines(where string, rules []rbacv1.PolicyRule) (out []string) {
	for _, r := range rules {
		for _, verb := range r.Verbs {
			for _, url := range r.NonResourceURLs {
				out = append(out, where+": "+verb+" "+url)
			}
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					words := append([]string{verb, resource + "." + group}, r.ResourceNames...)
					out = append(out, where+": "+strings.Join(words, " "))
				}
			}
		}
	}
	return out
}

// granted lists what the driver may.
func granted(t *testing.T, args ...string) []string {
	t.Helper()
	account := daemonSet(t, args...).Spec.Template.Spec.ServiceAccountName
	return rights(t, args...)["ServiceAccount "+namespace+" "+account]
}

// TestRights: each account of a release has exactly the rights in testdata/rights.golden.txt: with the default values
// all of them, and with other values those that come and go. docs/security.md has the reasons. test/cluster/e2e asks a
// real API server.
func TestRights(t *testing.T) {
	var text, before []string
	for _, values := range []string{
		"claims.events=true", "claims.events=false", "claims.status=false", "testDeviceClasses=null",
		"metrics.enabled=true", monitored, "accessRoles.create=true",
	} {
		var now []string
		for who, allowed := range rights(t, "--set", values) {
			for _, right := range allowed {
				now = append(now, who+": "+right)
			}
		}
		slices.Sort(now)
		text = append(text, "", "values: "+values)
		for _, right := range without(before, now) {
			text = append(text, "- "+right)
		}
		for _, right := range without(now, before) {
			text = append(text, "+ "+right)
		}
		if before == nil {
			before = now
		}
	}
	golden.File(t, "testdata/rights.golden.txt", []byte(strings.Join(text[1:], "\n")+"\n"))
}

// TestBindings: the policies for what the driver writes name the account of its pods, in any namespace: kustomize and
// Flux change the namespace of objects and not of expressions, and a policy for another user would never apply.
func TestBindings(t *testing.T) {
	for _, args := range [][]string{nil, {"--set", "fullnameOverride=other"}} {
		user := `^system:serviceaccount:[^:]+:` + daemonSet(t, args...).Spec.Template.Spec.ServiceAccountName + `$`
		for _, name := range []string{"node-slices.rdma.dev", "claim-status.rdma.dev", "events.rdma.dev"} {
			conditions := policy(t, name, args...).Spec.MatchConditions
			must.Eq(t, 1, len(conditions), must.Sprintf("%s: conditions", name))
			test.Eq(t, fmt.Sprintf("request.userInfo.username.matches(%q)", user), conditions[0].Expression,
				test.Sprintf("whom policy %s applies to", name))
		}
	}
}

// policy returns an admission policy by name.
func policy(t *testing.T, name string, args ...string) *admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	for _, p := range all[*admissionv1.ValidatingAdmissionPolicy](t, args...) {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no policy %s", name)
	return nil
}

// attributeType matches the type of some attributes in the policy of slices.
var attributeType = regexp.MustCompile(`name in \[([^\]]*)\] \? has\(a\[name\]\.(\w+)\)`)

// attributeRow matches a row of docs/attributes.md, which pkg/dra/resources compares with what is published.
var attributeRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (string|int|bool) \\|")

// TestAttributeTypes: the policy of slices knows the type of each attribute that the driver sets.
func TestAttributeTypes(t *testing.T) {
	want := map[string]string{"group": "string", string(resources.AttributeDeviceID): "string"}
	for _, row := range attributeRow.FindAllStringSubmatch(readFile(t, "../../docs/attributes.md"), -1) {
		want[row[1]] = row[2]
	}
	for _, name := range resources.OwnAttributes {
		test.NotEq(t, "", want[string(name)], test.Sprintf("docs/attributes.md does not have %s", name))
	}
	got := map[string]string{}
	for _, v := range policy(t, "node-slices.rdma.dev").Spec.Validations {
		for _, match := range attributeType.FindAllStringSubmatch(v.Expression, -1) {
			for name := range strings.SplitSeq(match[1], ", ") {
				got[strings.Trim(name, `"`)] = match[2]
			}
		}
	}
	test.Eq(t, want, got, test.Sprint("types of attributes (-docs/attributes.md +policy)"))
}

// TestPolicies: each policy fails closed, judges all versions of the API, and is
// bound to everything it matches.
func TestPolicies(t *testing.T) {
	matched := map[string][]string{}
	for _, p := range all[*admissionv1.ValidatingAdmissionPolicy](t) {
		test.Eq(t, admissionv1.Fail, *p.Spec.FailurePolicy, test.Sprintf("%s: failure policy", p.Name))
		constraints := p.Spec.MatchConstraints
		if *constraints.MatchPolicy != admissionv1.Equivalent || constraints.NamespaceSelector != nil || constraints.ObjectSelector != nil || constraints.ExcludeResourceRules != nil {
			t.Errorf("%s: match constraints %v", p.Name, constraints)
		}
		for _, r := range constraints.ResourceRules {
			for _, operation := range r.Operations {
				matched[p.Name] = append(matched[p.Name], fmt.Sprintf("%s %s", operation, strings.Join(r.Resources, ",")))
			}
		}
	}
	want := map[string][]string{
		"privileged-classes.rdma.dev":     {"CREATE deviceclasses", "UPDATE deviceclasses"},
		"privileged-claims.rdma.dev":      {"CREATE resourceclaims,resourceclaimtemplates"},
		"privileged-allocations.rdma.dev": {"UPDATE resourceclaims/status"},
		"claim-status.rdma.dev":           {"UPDATE resourceclaims/status"},
		"claim-parameters.rdma.dev":       {"CREATE resourceclaims,resourceclaimtemplates"},
		"class-parameters.rdma.dev":       {"CREATE deviceclasses", "UPDATE deviceclasses"},
		"events.rdma.dev":                 {"CREATE events", "UPDATE events"},
		"node-pools.rdma.dev":             {"CREATE resourceslices"},
		"node-slices.rdma.dev":            {"CREATE resourceslices", "UPDATE resourceslices", "DELETE resourceslices"},
	}
	test.Eq(t, want, matched, test.Sprint("what the policies match"))
	for _, b := range all[*admissionv1.ValidatingAdmissionPolicyBinding](t) {
		if b.Name != b.Spec.PolicyName || want[b.Name] == nil {
			t.Errorf("binding %s is for policy %s", b.Name, b.Spec.PolicyName)
		}
		if d := cmp.Diff([]admissionv1.ValidationAction{admissionv1.Deny}, b.Spec.ValidationActions); d != "" || b.Spec.MatchResources != nil {
			t.Errorf("binding %s does not deny everything it matches", b.Name)
		}
		delete(want, b.Name)
	}
	test.Eq(t, 0, len(want), test.Sprintf("policies without binding: %v", want))
}

// TestAccessRoles: the viewer's role is that of docs/kubectl-rdma.md. testdata/rights.golden.txt has the operator's,
// and that nobody is bound to them.
func TestAccessRoles(t *testing.T) {
	_, text, _ := strings.Cut(readFile(t, "../../docs/kubectl-rdma.md"), "## Rights\n")
	_, text, _ = strings.Cut(text, "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	var documented rbacv1.ClusterRole
	must.NoError(t, yaml.UnmarshalStrict([]byte(text), &documented))
	want := lines("cluster", documented.Rules)
	slices.Sort(want)
	test.Eq(t, want, rights(t, "--set", "accessRoles.create=true")["nobody, by ClusterRole "+fullname+"-viewer"])
}
