package cluster_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

const plainPod = `
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: localhost/busybox:testbed
    imagePullPolicy: Never
    command: [/bin/sh, -c, "echo hello; exec sleep 1000000"]
    securityContext: {runAsUser: 1000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

func TestPlainPod(t *testing.T) {
	needs.Long(t, "the test bed alone; TestTemplate starts pods")
	c := up(t, options(t))
	apply(t, c, plainPod)
	test.Eq(t, "hello", inside(t, c, "kubectl", "logs", "plain"), test.Sprint("logs"))
	test.Eq(t, "1000", inside(t, c, "kubectl", "exec", "plain", "--", "id", "-u"), test.Sprint("exec: got user"))
	// The point of containerd's soft limit: what our hook does can be seen.
	test.Eq(t, "64", inside(t, c, "kubectl", "exec", "plain", "--", "sh", "-c", "ulimit -S -l"),
		test.Sprint("soft RLIMIT_MEMLOCK"))
	test.Eq(t, "v1.37.2", inside(t, c, "kubectl", "get", "node", cluster.NodeName, "-o", "jsonpath={.status.nodeInfo.kubeletVersion}"),
		test.Sprint("kubelet version"))
	inside(t, c, "kubectl", "delete", "pod", "plain", "--wait")
}

// A program with client-go's in-cluster configuration needs the service address, the
// certificate for it, and a token: kubectl is such a program.
func TestInClusterConfig(t *testing.T) {
	needs.Long(t, "the test bed alone; the driver of TestTemplate has this configuration")
	c := up(t, options(t))
	kubectl := inside(t, c, "sh", "-c", "command -v kubectl")
	manifest := `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: view}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
`
	for name, hostNetwork := range map[string]string{"host-network": "true", "pod-network": "false"} {
		manifest += strings.NewReplacer("NAME", name, "HOSTNETWORK", hostNetwork, "BIN", filepath.Dir(kubectl)).Replace(`---
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  hostNetwork: HOSTNETWORK
  terminationGracePeriodSeconds: 1
  volumes: [{name: bin, hostPath: {path: BIN}}]
  containers:
  - name: main
    image: localhost/busybox:testbed
    imagePullPolicy: Never
    command: [/bin/sleep, "1000000"]
    volumeMounts: [{name: bin, mountPath: /k8s, readOnly: true}]
`)
	}
	apply(t, c, manifest)
	for _, name := range []string{"host-network", "pod-network"} {
		out := inside(t, c, "kubectl", "exec", name, "--", "/k8s/kubectl", "get", "pods", "-o", "name")
		test.StrContains(t, out, "pod/"+name, test.Sprintf("%s", name))
	}
}

func TestComponentRestart(t *testing.T) {
	needs.Long(t, "the test bed alone; TestKubeletRestart and TestContainerdRestart restart these")
	c := up(t, options(t))
	apply(t, c, plainPod)
	uid := inside(t, c, "kubectl", "get", "pod", "plain", "-o", "jsonpath={.metadata.uid} {.status.containerStatuses[0].containerID}")
	for _, name := range []string{cluster.Kubelet, cluster.Containerd} {
		before := state(t, c, name).Pid
		must.NoError(t, c.Restart(t.Context(), name))
		if after := state(t, c, name).Pid; after == 0 || after == before {
			t.Errorf("%s: process %d before, %d after the restart", name, before, after)
		}
	}
	// Stopped with a signal of our choice, brought back by Up.
	must.NoError(t, c.Stop(t.Context(), cluster.Kubelet, syscall.SIGKILL))
	if s := state(t, c, cluster.Kubelet); s.Running() || s.Ended != "killed by killed" {
		t.Errorf("kubelet after SIGKILL: %+v", s)
	}
	if _, err := cluster.Up(t.Context(), c.Options); err != nil {
		t.Fatal(err)
	}
	if s := state(t, c, cluster.Kubelet); !s.Running() {
		t.Errorf("kubelet after a second up: %+v", s)
	}
	test.Eq(t, uid, inside(t, c, "kubectl", "get", "pod", "plain", "-o", "jsonpath={.metadata.uid} {.status.containerStatuses[0].containerID}"),
		test.Sprint("the pod's container did not live through the restarts"))
	test.ErrorContains(t, c.Start(t.Context(), "nonesuch"), `"nonesuch"`,
		test.Sprint("start of an unknown component"))
}

func state(t *testing.T, c *cluster.Cluster, name string) cluster.State {
	t.Helper()
	states, err := c.Status(t.Context())
	must.NoError(t, err)
	for _, s := range states {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no component %q", name)
	return cluster.State{}
}
