package chart

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// daemonSet renders the driver's DaemonSet.
func daemonSet(t *testing.T, args ...string) *appsv1.DaemonSet {
	t.Helper()
	return one[*appsv1.DaemonSet](t, args...)
}

// driver returns the only container of the driver's pod.
func driver(t *testing.T, set *appsv1.DaemonSet) corev1.Container {
	t.Helper()
	pod := set.Spec.Template.Spec
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
		t.Fatalf("%d containers and %d init containers, want one and none", len(pod.Containers), len(pod.InitContainers))
	}
	return pod.Containers[0]
}

// TestUnprivileged: the security context is what docs/security.md says, as a whole,
// so that nothing can be added without a look at this test.
func TestUnprivileged(t *testing.T) {
	set := daemonSet(t)
	pod := set.Spec.Template.Spec
	wantPod := &corev1.PodSecurityContext{
		RunAsUser:      new(int64(0)),
		RunAsGroup:     new(int64(0)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	test.Eq(t, wantPod, pod.SecurityContext, test.Sprint("security context of the pod"))
	want := &corev1.SecurityContext{
		Privileged:               new(false),
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	test.Eq(t, want, driver(t, set).SecurityContext, test.Sprint("security context of the container"))
	if pod.HostPID || pod.HostIPC || pod.ShareProcessNamespace != nil {
		t.Error("the pod shares process or IPC namespaces")
	}
	if pod.AutomountServiceAccountToken == nil || !*pod.AutomountServiceAccountToken {
		t.Error("the pod has no service account token")
	}
	account := one[*corev1.ServiceAccount](t)
	if account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
		t.Error("other pods of the service account get its token without asking")
	}
}

// TestNoPorts: with hostNetwork a declared port is a host port, and the second
// driver of a rolling update could not start beside the first.
func TestNoPorts(t *testing.T) {
	set := daemonSet(t)
	test.True(t, set.Spec.Template.Spec.HostNetwork, test.Sprint("no host network: kernel events do not arrive"))
	test.Nil(t, driver(t, set).Ports, test.Sprint("ports"))
}

// mount is a directory of the host in the driver's container.
type mount struct {
	Host, Container string
	ReadOnly        bool
	Recursive       corev1.RecursiveReadOnlyMode
	Propagation     corev1.MountPropagationMode
	Type            corev1.HostPathType
}

// mounts lists the directories of the host; every volume but the configuration must
// be one, and mounted once.
func mounts(t *testing.T, set *appsv1.DaemonSet) []mount {
	t.Helper()
	volumes := map[string]*corev1.HostPathVolumeSource{}
	for _, v := range set.Spec.Template.Spec.Volumes {
		if v.ConfigMap != nil {
			continue // TestConfig
		}
		if v.HostPath == nil || v.HostPath.Type == nil {
			t.Fatalf("volume %s is no host path with a type", v.Name)
		}
		volumes[v.Name] = v.HostPath
	}
	var found []mount
	for _, m := range driver(t, set).VolumeMounts {
		if m.Name == "config" || m.Name == "link-table" { // ConfigMaps
			continue
		}
		v, ok := volumes[m.Name]
		must.True(t, ok, must.Sprintf("volume %s is missing, or mounted twice", m.Name))
		delete(volumes, m.Name)
		one := mount{Host: v.Path, Type: *v.Type, Container: m.MountPath, ReadOnly: m.ReadOnly}
		if m.RecursiveReadOnly != nil {
			one.Recursive = *m.RecursiveReadOnly
		}
		if m.MountPropagation != nil {
			one.Propagation = *m.MountPropagation
		}
		found = append(found, one)
	}
	must.Eq(t, 0, len(volumes), must.Sprintf("volumes %v are not mounted", slices.Collect(maps.Keys(volumes))))
	return found
}

// TestFlags: the driver understands the flags that the chart gives it, whatever
// the values.
func TestFlags(t *testing.T) {
	program := filepath.Join(t.TempDir(), "dra-driver")
	out, err := exec.Command("go", "build", "-tags", "grpcnotrace", "-o", program, "../../cmd/dra-driver").CombinedOutput()
	must.NoError(t, err, must.Sprintf("build the driver\n%s", out))
	run := func(args ...string) string {
		cmd := exec.Command(program, args...)
		cmd.Env = []string{"NODE_NAME=", "POD_UID=x"}
		out, err := cmd.CombinedOutput()
		must.Error(t, err, must.Sprintf("%v: the driver runs here", args))
		return string(out)
	}
	for _, values := range []string{"default", "full", "least"} {
		c := driver(t, daemonSet(t, "--values", "testdata/"+values+".values.yaml"))
		// The name of the node is looked at after all flags.
		if out := run(c.Args...); !strings.HasPrefix(out, "dra-driver: node name is empty") || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: flags %v: %s", values, c.Args, out)
		}
		for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			test.StrHasPrefix(t, "dra-driver: probe ", run(p.Exec.Command[1:]...),
				test.Sprintf("%s: probe %v", values, p.Exec.Command))
		}
	}
}
