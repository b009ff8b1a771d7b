package chart

import (
	"fmt"
	"os"
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

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
)

// granted lists what the roles of the chart allow: one line for each namespace, API
// group, resource, verb and names, so that nothing hides in a list or a wildcard.
func granted(t *testing.T, args ...string) []string {
	t.Helper()
	var lines []string
	add := func(where string, rules []rbacv1.PolicyRule) {
		for _, r := range rules {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, verb := range r.Verbs {
						line := fmt.Sprintf("%s: %s %s.%s", where, verb, resource, group)
						for _, name := range r.ResourceNames {
							line += " " + name
						}
						lines = append(lines, line)
					}
				}
			}
			test.Nil(t, r.NonResourceURLs, test.Sprintf("rule %v has URLs, which this test does not read", r))
		}
	}
	for _, role := range all[*rbacv1.ClusterRole](t, args...) {
		add("cluster", role.Rules)
	}
	for _, role := range all[*rbacv1.Role](t, args...) {
		add(role.Namespace, role.Rules)
	}
	slices.Sort(lines)
	return lines
}

// TestRBAC: exactly what the driver uses. docs/security.md gives the reasons;
// test/cluster/e2e asks a real API server.
func TestRBAC(t *testing.T) {
	want := []string{
		"cluster: associated-node:patch resourceclaims/driver.resource.k8s.io rdma.dev",
		"cluster: associated-node:update resourceclaims/driver.resource.k8s.io rdma.dev",
		"cluster: create events.",
		"cluster: create resourceslices.resource.k8s.io",
		"cluster: delete resourceslices.resource.k8s.io",
		"cluster: get nodes.",
		"cluster: get resourceclaims.resource.k8s.io",
		"cluster: list resourceslices.resource.k8s.io",
		"cluster: patch events.",
		"cluster: patch resourceclaims/status.resource.k8s.io",
		"cluster: update resourceclaims/status.resource.k8s.io",
		"cluster: update resourceslices.resource.k8s.io",
		"cluster: watch resourceslices.resource.k8s.io",
		"default: create events.",
		"default: patch events.",
	}
	test.Eq(t, want, granted(t), test.Sprint("rights"))
	quiet := slices.DeleteFunc(slices.Clone(want), func(right string) bool {
		return strings.HasPrefix(right, "cluster:") && strings.HasSuffix(right, " events.")
	})
	test.Eq(t, quiet, granted(t, "--set", "claims.events=false"), test.Sprint("rights without events of claims"))
	want = slices.DeleteFunc(want, func(right string) bool {
		return strings.Contains(right, " resourceclaims/")
	})
	test.Eq(t, want, granted(t, "--set", "claims.status=false"), test.Sprint("rights without the status of claims"))
}

// TestBindings: the roles are given to the user that the driver's pods have, and to
// nobody else, and the policies for what it writes name the same account, in any namespace: kustomize and Flux change
// the namespace of objects and not of expressions, and a policy for another user would never apply.
func TestBindings(t *testing.T) {
	for _, args := range [][]string{nil, {"--set", "fullnameOverride=other"}} {
		account := daemonSet(t, args...).Spec.Template.Spec.ServiceAccountName
		want := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace}}
		cluster, inDefault := one[*rbacv1.ClusterRoleBinding](t, args...), one[*rbacv1.RoleBinding](t, args...)
		for _, subjects := range [][]rbacv1.Subject{cluster.Subjects, inDefault.Subjects} {
			test.Eq(t, want, subjects, test.Sprint("subjects"))
		}
		if cluster.RoleRef.Name != one[*rbacv1.ClusterRole](t, args...).Name || inDefault.RoleRef.Name != one[*rbacv1.Role](t, args...).Name {
			t.Error("a binding names no role of the chart")
		}
		user := `^system:serviceaccount:[^:]+:` + account + `$`
		for _, name := range []string{"node-slices.rdma.dev", "claim-status.rdma.dev", "events.rdma.dev"} {
			conditions := policy(t, name, args...).Spec.MatchConditions
			if len(conditions) != 1 || conditions[0].Expression != fmt.Sprintf("request.userInfo.username.matches(%q)", user) {
				t.Errorf("policy %s applies to %v, want user %s", name, conditions, user)
			}
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

// TestAccessRoles: without the value there is none. The viewer's role is that of docs/kubectl-rdma.md, the operator's
// has the rules of kubectl rdma drain as well, and nobody is bound to them.
func TestAccessRoles(t *testing.T) {
	args := []string{"--set", "accessRoles.create=true"}
	roles := map[string][]string{}
	for _, role := range all[*rbacv1.ClusterRole](t, args...) {
		roles[role.Name] = lines(role.Rules)
	}
	driver := one[*rbacv1.ClusterRole](t).Name
	must.Eq(t, 3, len(roles), must.Sprintf("%d roles: %v", len(roles), roles))
	page, err := os.ReadFile("../../docs/kubectl-rdma.md")
	must.NoError(t, err)
	_, text, _ := strings.Cut(string(page), "## Rights\n")
	_, text, _ = strings.Cut(text, "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	var documented rbacv1.ClusterRole
	must.NoError(t, yaml.UnmarshalStrict([]byte(text), &documented))
	test.Eq(t, lines(documented.Rules), roles[driver+"-viewer"], test.Sprint("the viewer's role"))
	added := slices.DeleteFunc(slices.Clone(roles[driver+"-operator"]), func(line string) bool {
		return slices.Contains(roles[driver+"-viewer"], line)
	})
	want := []string{
		"create devicetaintrules.resource.k8s.io", "delete devicetaintrules.resource.k8s.io",
		"get devicetaintrules.resource.k8s.io", "get nodes.", "update devicetaintrules.resource.k8s.io",
	}
	test.Eq(t, want, added, test.Sprint("the operator's role"))
	for _, binding := range all[*rbacv1.ClusterRoleBinding](t, args...) {
		test.Eq(t, driver, binding.RoleRef.Name, test.Sprintf("%s binds", binding.Name))
	}
}

// lines lists rules, one for each verb.
func lines(rules []rbacv1.PolicyRule) (out []string) {
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					out = append(out, verb+" "+resource+"."+group)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
