package plugin

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// foreign is a rule of somebody else for a device that the test drains.
const foreign = `apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: foreign}
spec:
  deviceSelector: {driver: rdma.dev, pool: storage, device: shared-pci-0000-3b-00-0}
  taint: {key: rdma.dev/drain, effect: None}
`

func at(address string) string {
	return selector(`device.attributes["resource.kubernetes.io"].?pciBusID.orValue("") == "` + address + `"`)
}

// drains are pods that want a drained HCA, each in another form.
var drains = map[string]waiting{
	"late-share": {Claim: devices(request("nic", "shared.hca.rdma.dev", at("0000:3b:00.0")), "")},
	"late-vf":    {Claim: devices(request("nic", "vf.hca.rdma.dev", at("0000:3b:00.2")), "")},
	"late-whole": {Claim: devices(request("nic", "hca.rdma.dev", at("0000:19:00.0")), "")},
}

// TestDrain: a drained HCA gets no new claim in any form, its pods stay until --evict, and undrain brings it back. The
// chart's roles are enough, a user without them reads what is missing, and a foreign rule stays as it is.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := newBed(t, "", "exclusive", "shared")
	b.roles()
	holder := waiting{Claim: drains["late-share"].Claim}
	b.apply(holder.manifest("holder") + foreign)
	b.scheduled("holder")
	before := b.run("kubectl", "get", "devicetaintrule", "foreign", "-o", "jsonpath={.metadata.uid} {.spec}")

	out, err := b.command("kubectl", "rdma", "drain", "storage", "mlx5_0", "--as=viewer").CombinedOutput()
	if err == nil || !strings.Contains(string(out),
		"ask an administrator for the chart's ClusterRole of operators (accessRoles.create); nothing was changed") {
		t.Errorf("a viewer drains: %v\n%s", err, out)
	}
	b.effects("None")

	said := b.run("kubectl", "rdma", "drain", "storage", "mlx5_0", "--reason", "cable 17", "--as=operator")
	for _, want := range []string{
		"default/holder-devices-", "holder", "in use by 1 claim. With --evict, Kubernetes would end 1 pod:",
	} {
		test.StrContains(t, said, want, test.Sprint("kubectl rdma drain does not say"))
	}
	b.run("kubectl", "rdma", "drain", "train", "mlx5_0", "--as=operator")
	b.effects("None NoSchedule")
	for name, w := range drains {
		b.apply(w.manifest(name))
	}
	for name := range drains {
		b.unscheduled(name)
	}
	test.StrContains(t, b.run("kubectl", "rdma", "why", "late-share", "--as=viewer"), `drained by "operator": "cable 17"`,
		test.Sprint("kubectl rdma why names neither reason nor author"))
	test.StrContains(t, b.run("kubectl", "rdma", "status", "--as=viewer"), "storage/pci-0000-3b-00-0 (mlx5_0)   NoSchedule",
		test.Sprint("kubectl rdma status does not list what is drained"))
	test.False(t, b.ends("holder"), test.Sprint("a drain without --evict ends a pod"))

	b.run("kubectl", "rdma", "drain", "storage", "mlx5_0", "--evict", "--yes", "--as=operator")
	b.until("an eviction", func() bool { return b.ends("holder") })
	b.evictions()
	for _, hca := range []string{"storage/mlx5_0", "storage/mlx5_1", "train/mlx5_0"} {
		node, name, _ := strings.Cut(hca, "/")
		b.run("kubectl", "rdma", "undrain", node, name, "--as=operator")
	}
	b.effects("None")
	for name := range drains {
		b.scheduled(name)
	}
	test.Eq(t, before, b.run("kubectl", "get", "devicetaintrule", "foreign", "-o", "jsonpath={.metadata.uid} {.spec}"),
		test.Sprint("the foreign rule"))
}

// tolerant are pods whose claims tolerate a drain in some way, and whether Kubernetes lets them run.
var tolerant = map[string]struct {
	tolerations, note string
	stays             bool
}{
	"ever":  {"{operator: Exists, effect: NoExecute}", "tolerates the taint: its pods stay", true},
	"later": {"{operator: Exists, effect: NoExecute, tolerationSeconds: 7200}, {operator: Exists, effect: NoExecute, tolerationSeconds: 3600}", "tolerates the taint for 3600 s, then its pods end", true},
	"empty": {"{operator: Exists}", "-", false}, // docs/dev/upstream-tolerations-without-effect.md
	"both":  {"{operator: Exists, effect: NoExecute}, {operator: Exists, effect: NoExecute, tolerationSeconds: -1}", "tolerates the taint: its pods stay", true},
}

// evictions checks that a drain says beforehand which pods stay, and that it is so.
func (b *bed) evictions() {
	b.Helper()
	for name, w := range tolerant {
		wants := request("nic", "shared.hca.rdma.dev", at("0000:3b:00.1")+", tolerations: ["+w.tolerations+"]")
		b.apply(waiting{Claim: devices(wants, "")}.manifest(name))
	}
	for name := range tolerant {
		b.scheduled(name)
	}
	said := b.run("kubectl", "rdma", "drain", "storage", "mlx5_1", "--evict", "--yes", "--as=operator")
	for name, w := range tolerant {
		if !regexp.MustCompile(`default/` + name + `-devices-\S+ .* ` + w.note).MatchString(said) {
			b.Errorf("kubectl rdma drain does not say %q of %s:\n%s", w.note, name, said)
		}
	}
	test.StrContains(b, said, "With --evict, Kubernetes would end 2 pods:")
	b.until("an eviction of a toleration without effect", func() bool { return b.ends("empty") })
	for name, w := range tolerant {
		if b.ends(name) == w.stays {
			b.Errorf("pod %s ends: %t", name, w.stays)
		}
	}
	evicts := regexp.MustCompile(`\(NoExecute\).*: Kubernetes evicts the pod at .*, in (5[5-9]m|60m)`)
	if why := b.run("kubectl", "rdma", "why", "later"); !evicts.MatchString(why) {
		b.Errorf("kubectl rdma why does not say when the pod ends:\n%s", why)
	}
	b.run("kubectl", "delete", "pods", "ever", "later", "both", "--grace-period=0", "--force")
}

// effects checks the effects of all rules.
func (b *bed) effects(want string) {
	b.Helper()
	seen := map[string]bool{}
	for _, effect := range strings.Fields(b.run("kubectl", "get", "devicetaintrules", "-o", "jsonpath={.items[*].spec.taint.effect}")) {
		seen[effect] = true
	}
	for _, effect := range strings.Fields(want) {
		if !seen[effect] {
			b.Errorf("no rule has the effect %s", effect)
		}
		delete(seen, effect)
	}
	if len(seen) > 0 {
		b.Errorf("rules have the effects %v beside %s", seen, want)
	}
}

// ends reports whether a pod is being deleted, or gone: these nodes have no kubelet.
func (b *bed) ends(pod string) bool {
	return b.run("kubectl", "get", "pod", "--ignore-not-found", "--field-selector=metadata.name="+pod, "-o", "jsonpath={.items[*].metadata.deletionTimestamp}") != "" ||
		b.try("kubectl", "get", "pod", pod) != nil
}

// roles creates the chart's roles for people, and users that have them.
func (b *bed) roles() {
	manifest := b.run("helm", "template", "../../../../deployments/helm/dra-driver-rdma", "--set=accessRoles.create=true,runtimeCDIEnabled=true",
		"--show-only=templates/rbac-people.yaml")
	b.apply(manifest)
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	roles := b.run("kubectl", "get", "clusterroles", "-l", "app.kubernetes.io/name=dra-driver-rdma", "-o", "json")
	must.NoError(b, json.Unmarshal([]byte(roles), &list))
	for _, role := range list.Items {
		_, user, _ := strings.Cut(role.Metadata.Name, "dra-driver-rdma-")
		if i := strings.LastIndex(user, "-"); i >= 0 {
			user = user[i+1:]
		}
		b.run("kubectl", "create", "clusterrolebinding", user, "--clusterrole="+role.Metadata.Name, "--user="+user)
	}
}

// withoutRules: an API server without DeviceTaintRules is named, with the alternative.
func (b *bed) withoutRules() {
	out, err := b.command("kubectl", "rdma", "drain", "train", "mlx5_0").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "serves no DeviceTaintRules") ||
		!strings.Contains(string(out), "kubectl cordon train") {
		b.Errorf("drain without DeviceTaintRules: %v\n%s", err, out)
	}
}
