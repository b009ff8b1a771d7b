package bundle_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/bundle"
)

// secrets must not be left anywhere in an archive.
var secrets = []string{
	"gpu-west-17", "corp.example.com", "fusion-team", "hadron-trainer", "hadron-claim", "leaf-r12-sw3", "rack-of-bob", "alice@corp",
	"192.0.2.77", "2001:db8::77", "a0:88:c2:25:10:00", "a288:c2ff:fe25:1000", "a088c20300251000", "hunter2hunter2", "eyJhbGciOi",
	"bob-user", "sel-secret", "param-secret", "ann-secret", "registry.corp", "::ffff:192", "MIIEpA",
}

func source() *bundle.Source {
	const node = "gpu-west-17.corp.example.com"
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "fusion-team", Name: name, UID: "0b7c1bd2-7a3c-4f0e-9d43-0c2d54d7a111",
			Annotations: map[string]string{"note": "ann-secret"}, Labels: map[string]string{"ann-secret": "x"}}
	}
	guid, leaf, name := "a088:c203:0025:1000", "leaf-r12-sw3", "mlx5_0"
	nodeName := node
	result := resourceapi.DeviceRequestAllocationResult{Request: "nic", Driver: "rdma.dev", Pool: node, Device: "pci-0000-3b-00-0"}
	c := &inspect.Cluster{
		Now: time.Unix(1e9, 0),
		Nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"rack": "rack-of-bob"}},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.77"}}}}},
		Pods:     []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "dra-driver-rdma", Name: "dra-driver-rdma-x"}, Spec: corev1.PodSpec{NodeName: node}}},
		UserPods: []corev1.Pod{{ObjectMeta: meta("hadron-trainer-0"), Spec: corev1.PodSpec{NodeName: node}}},
		Slices: []resourceapi.ResourceSlice{{Spec: resourceapi.ResourceSliceSpec{Driver: "rdma.dev", NodeName: &nodeName,
			Pool: resourceapi.ResourcePool{Name: node}, Devices: []resourceapi.Device{{Name: "pci-0000-3b-00-0",
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
					"nodeGUID": {StringValue: &guid}, "ibdev": {StringValue: &name}, "leaf": {StringValue: &leaf},
					"site.example.com/switch": {StringValue: &leaf}}}}}}},
		Claims: []resourceapi.ResourceClaim{{ObjectMeta: meta("hadron-claim"),
			Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "nic",
				Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "hca.rdma.dev", Count: 1, Selectors: []resourceapi.DeviceSelector{
					{CEL: &resourceapi.CELDeviceSelector{Expression: "sel-secret"}}}}}},
				Config: []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{
					Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "rdma.dev", Parameters: runtime.RawExtension{Raw: []byte(`{"a":"param-secret"}`)}}}}}}},
			Status: resourceapi.ResourceClaimStatus{
				Allocation:  &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}}},
				ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "hadron-trainer-0"}},
				Devices: []resourceapi.AllocatedDeviceStatus{{Driver: "rdma.dev", Pool: node, Device: "pci-0000-3b-00-0",
					Data: &runtime.RawExtension{Raw: []byte(`{"hcas":[{"ports":[{"gids":[{"gid":"fe80::a288:c2ff:fe25:1000"}]}]}]}`)}}}}}},
		Rules: []resourceapi.DeviceTaintRule{{ObjectMeta: metav1.ObjectMeta{Name: "rule-1", Annotations: map[string]string{inspect.DrainAuthor: "bob-user"}}}},
	}
	return &bundle.Source{
		Cluster: c, Version: "v1", Status: "gpu-west-17.corp.example.com  hadron-trainer-0  drained by bob-user\n",
		Missing: []string{`pods "hadron-trainer-0" in namespace "fusion-team" is forbidden`},
		Events: []corev1.Event{{InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "fusion-team", Name: "hadron-trainer-0"},
			Reason: "RDMANotUsable", Message: "container x of claim hadron-claim\\nhadron-claim on gpu-west-17", Source: corev1.EventSource{Host: node}}},
		Drivers: []bundle.Driver{{Node: node,
			Log: []byte(`I1126 driver.go:1] "dial https://alice@corp:hunter2hunter2@registry.corp.example.com:443: 192.0.2.77:443 ::ffff:192.0.2.77 ` +
				`2001:db8::77 a0:88:c2:25:10:00 a088c20300251000" claim="fusion-team/hadron-claim" err="x\na0:88:c2:25:10:00" ` +
				"Authorization: Bearer hunter2hunter2 token=\"hunter2hunter2\" eyJhbGciOiJSUzI1NiJ9.abc.def GPU-WEST-17\n" +
				"-----BEGIN RSA PRIVATE KEY-----\nMIIEpA\n-----END RSA PRIVATE KEY-----\nmlx5_0 stays, version 1.2.3 too\n"),
			Page: []byte(`{"node":"gpu-west-17.corp.example.com","events":[{"object":"fusion-team/hadron-claim"}]}`)}},
	}
}

// TestFiles: nothing in an archive names a node, a user's object, an address or a secret, not even the names of its
// files; what belongs together still does; and what a developer needs is there.
func TestFiles(t *testing.T) {
	s := source()
	files, err := s.Files()
	must.NoError(t, err)
	all := map[string]string{}
	for _, f := range files {
		all[f.Name] = string(f.Data)
		for _, secret := range secrets {
			test.StrNotContains(t, strings.ToLower(f.Name+string(f.Data)), strings.ToLower(secret),
				test.Sprintf("%s has %q:\n%s", f.Name, secret, f.Data))
		}
		if strings.HasSuffix(f.Name, ".json") && !json.Valid(f.Data) {
			t.Errorf("%s is not JSON: %s", f.Name, f.Data)
		}
	}
	for name, words := range map[string][]string{
		"README":                       {"v1", "status.txt", "slices.json", "missing: pods \"(pod 1)\" in namespace \"(namespace 1)\""},
		"status.txt":                   {"(node 1)  (pod 1)  drained by (user 1)"},
		"slices.json":                  {"(node 1)", "mlx5_0", "pci-0000-3b-00-0", "(hidden)", "(hardware address "},
		"claims.json":                  {"(claim 1)", "(pod 1)", "hca.rdma.dev", `"pool": "(node 1)"`},
		"events.json":                  {"RDMANotUsable", "(claim 1)", `"node": "(node 1)"`},
		"drivers/1-node-1/log.txt":     {"(namespace 1)/(claim 1)", "(address 1):443", "mlx5_0 stays, version 1.2.3 too"},
		"drivers/1-node-1/status.json": {"(node 1)", "(namespace 1)/(claim 1)"},
	} {
		for _, w := range words {
			test.StrContains(t, all[name], w, test.Sprintf("%s lacks", name))
		}
	}
	again, err := source().Files()
	for i := range files {
		if err != nil || string(files[i].Data) != string(again[i].Data) {
			t.Errorf("%s differs in the second archive", files[i].Name)
		}
	}
}

// TestFilesBounded: an archive that would be too large is none.
func TestFilesBounded(t *testing.T) {
	s := source()
	s.Drivers[0].Log = make([]byte, bundle.MaxBytes)
	if _, err := s.Files(); err == nil || !strings.Contains(err.Error(), "name fewer nodes") {
		t.Errorf("error %v", err)
	}
}
