package claims

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	"k8s.io/dynamic-resource-allocation/devicemetadata"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
)

func withMetadata(c *Config) { c.DeviceMetadata = true }

// readMetadata returns what a container with all requests of a claim reads, by the path
// that the file has in it. The reader is that of Kubernetes.
func readMetadata(t *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim) map[string]*metadata.DeviceMetadata {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(n.CDIDir, "rdma.dev-claim_"+string(c.UID)+".json"))
	must.NoError(t, err)
	var spec specs.Spec
	must.NoError(t, json.Unmarshal(data, &spec))
	mounts := spec.ContainerEdits.Mounts
	for _, d := range spec.Devices {
		mounts = append(mounts, d.ContainerEdits.Mounts...)
	}
	found := map[string]*metadata.DeviceMetadata{}
	for _, m := range mounts {
		file, err := os.ReadFile(m.HostPath)
		if err != nil {
			t.Error(err)
			continue
		}
		var dm metadata.DeviceMetadata
		err = devicemetadata.DecodeMetadataFromStream(json.NewDecoder(bytes.NewReader(file)), &dm)
		test.NoError(t, err, test.Sprintf("%v in %s", err, file))
		test.Nil(t, found[m.ContainerPath], test.Sprintf("%s is mounted twice", m.ContainerPath))
		found[m.ContainerPath] = &dm
	}
	return found
}

// TestDeviceMetadata: containers read the attributes of their devices where KEP-5304
// says, also after files and specs were lost; with the claim the files go.
func TestDeviceMetadata(t *testing.T) {
	const root = "/var/run/kubernetes.io/dra-device-attributes/"
	s := serve(t, "hgx-h100", withMetadata)
	named, made := drivertest.Claim(1, dev0), drivertest.Claim(2, dev1, dev2, "pci-0000-4b-00-0")
	made.Annotations = map[string]string{resourceapi.PodResourceClaimAnnotation: "nics"}
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: "77aa0000-0000-4000-8000-000000000001", Controller: new(true)}}
	requests := made.Status.Allocation.Devices.Results
	requests[0].Request, requests[1].Request, requests[2].Request = "pair", "pair", "one/fast"
	s.prepares(named)
	s.prepares(made)
	check := func(when string) {
		t.Helper()
		for _, want := range []struct {
			claim         *resourceapi.ResourceClaim
			path, request string
			devices       []string
		}{
			{named, "resourceclaims/claim-1/r0/rdma.dev-metadata.json", "r0", []string{dev0}},
			{made, "resourceclaimtemplates/nics/pair/rdma.dev-metadata.json", "pair", []string{dev1, dev2}},
			{made, "resourceclaimtemplates/nics/one/rdma.dev-metadata.json", "one/fast", []string{"pci-0000-4b-00-0"}},
		} {
			got := readMetadata(t, s.node, want.claim)[root+want.path]
			if got == nil || got.UID != want.claim.UID || len(got.Requests) != 1 || got.Requests[0].Name != want.request {
				t.Errorf("%s: %s has %+v", when, want.path, got)
				continue
			}
			for i, device := range got.Requests[0].Devices {
				ibdev := device.Attributes["ibdev"].StringValue
				test.True(t, device.Driver == "rdma.dev" && device.Pool == drivertest.NodeName &&
					device.Name == want.devices[i] && ibdev != nil && *ibdev != "",
					test.Sprintf("%s: device %d of %s is %+v", when, i, want.path, device))
			}
			test.Eq(t, len(want.devices), len(got.Requests[0].Devices), test.Sprintf("%s: %s", when, want.path))
		}
	}
	check("when prepared")
	dir := filepath.Join(s.node.StateDir, "metadata")
	left := filepath.Join(dir, "00000000-0000-4000-8000-000000000099")
	must.NoError(t, errors.Join(os.RemoveAll(s.node.CDIDir), os.RemoveAll(dir), os.MkdirAll(left, 0o755)))
	s.restart()
	check("after all files were lost")
	_, err := os.Stat(left)
	test.ErrorIs(t, err, os.ErrNotExist, test.Sprint("what a killed driver has left"))
	s.unprepares(named, made)
	test.SliceEmpty(t, drivertest.Files(t, dir), test.Sprint("left of claims that ended"))
}

// TestDeviceMetadataOfShares: a share says so. A driver without the option makes no
// files, and keeps those of claims that have them.
func TestDeviceMetadataOfShares(t *testing.T) {
	s := serve(t, "hgx-h100", withMetadata)
	c := drivertest.Share(1, nil, devicename.Shared(dev0))
	s.prepares(c)
	check := func() {
		t.Helper()
		for path, got := range readMetadata(t, s.node, c) {
			a := got.Requests[0].Devices[0].Attributes
			test.True(t, a["shared"].BoolValue != nil && *a["shared"].BoolValue &&
				a["ibdev"].StringValue != nil, test.Sprintf("%s has attributes %v", path, a))
			return
		}
		t.Error("no metadata")
	}
	check()
	s.options = nil
	s.restart()
	s.prepares(c)
	check()
	other := drivertest.Claim(2, dev1)
	s.prepares(other)
	test.MapEmpty(t, readMetadata(t, s.node, other), test.Sprint("metadata without the option"))
}

// TestVLLM: a claim that asks for it has vLLM's map of GPUs to its HCAs. A GPU to which both are equally far is absent.
func TestVLLM(t *testing.T) {
	s := serve(t, "hgx-h100")
	c := drivertest.WithParameters(drivertest.Claim(1, dev0, dev1), `"env": ["vllm"]`)
	s.prepares(c)
	spec, err := os.ReadFile(filepath.Join(s.node.CDIDir, "rdma.dev-claim_"+string(c.UID)+".json"))
	must.NoError(t, err)
	for _, want := range []string{
		`"VLLM_GPU_NIC_PCIE_MAPPING=0000:18:00.0=0000:19:00.0,0000:2a:00.0=0000:29:00.0"`,
		`"VLLM_NIC_SELECTION_VARS=UCX_NET_DEVICES:1"`,
	} {
		test.Eq(t, 2, bytes.Count(spec, []byte(want)), test.Sprintf("%s of two devices:\n%s", want, spec))
	}
}

// TestNCCLTopology: a claim that asks for it has NCCL's topology file mounted and named, with its
// own HCAs; it comes back after it was lost, and goes with the claim.
func TestNCCLTopology(t *testing.T) {
	s := serve(t, "hgx-h100")
	c := drivertest.WithParameters(drivertest.Claim(1, dev0, dev1), `"env": ["nccl-topology"]`)
	s.prepares(c)
	file := filepath.Join(s.node.StateDir, "metadata", string(c.UID), "nccl-topology.xml")
	check := func(when string) {
		t.Helper()
		spec, err := os.ReadFile(filepath.Join(s.node.CDIDir, "rdma.dev-claim_"+string(c.UID)+".json"))
		must.NoError(t, err)
		for _, part := range []string{"NCCL_TOPO_FILE=/var/run/rdma.dev/nccl-topology.xml", file, `"ro"`} {
			test.True(t, bytes.Contains(spec, []byte(part)),
				test.Sprintf("%s: the spec does not say %s:\n%s", when, part, spec))
		}
		text, err := os.ReadFile(file)
		test.True(t, err == nil && bytes.Count(text, []byte("<net ")) == 2 &&
			bytes.Count(text, []byte(`class="0x030200"`)) == 8,
			test.Sprintf("%s: %v: want the claim's two HCAs and eight GPUs:\n%s", when, err, text))
	}
	check("prepared")
	must.NoError(t, os.Remove(file))
	s.restart()
	check("restored")
	s.unprepares(c)
	_, err := os.Stat(file)
	test.ErrorIs(t, err, os.ErrNotExist, test.Sprint("the file of a claim that has ended"))
}

// TestUsersTextIsNoPath: what a user writes on a claim made by hand is no path in a container, and fills no memory of the node,
// whatever it claims to be.
func TestUsersTextIsNoPath(t *testing.T) {
	s := serve(t, "hgx-h100", withMetadata)
	var devices []string
	for range 32 {
		devices = append(devices, dev0)
	}
	for i, annotation := range []string{"../../../../../etc/ld.so.conf.d", strings.Repeat("a", 250<<10)} {
		c := drivertest.Claim(i, devices...)
		yes := true
		for r := range c.Status.Allocation.Devices.Results {
			c.Status.Allocation.Devices.Results[r].AdminAccess = &yes
		}
		c.Annotations = map[string]string{resourceapi.PodResourceClaimAnnotation: annotation}
		s.prepares(c)
		for _, m := range drivertest.Spec(t, s.node.CDIDir, c).Devices[0].ContainerEdits.Mounts {
			want := "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/" + c.Name + "/"
			test.True(t, strings.HasPrefix(m.ContainerPath, want) && !strings.Contains(m.ContainerPath, ".."),
				test.Sprintf("mounted at %.200q, want below %s", m.ContainerPath, want))
		}
		total := 0
		for _, dir := range []string{s.node.CDIDir, s.node.StateDir} {
			err := filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
				if err != nil || !e.Type().IsRegular() {
					return err
				}
				info, err := e.Info()
				if err == nil {
					total += int(info.Size())
				}
				return err
			})
			must.NoError(t, err)
		}
		test.LessEq(t, 256<<10, total, test.Sprintf("the claim takes %d bytes of the node", total))
		s.unprepares(c)
	}
}

// TestLongOwner: whose claim it is, its user says on a claim made by hand. What is no UID is refused by the name of its field.
func TestLongOwner(t *testing.T) {
	s := serve(t, "hgx-h100")
	c := drivertest.Claim(1, dev0)
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: types.UID(strings.Repeat("7", 1<<20)), Controller: new(true)}}
	s.refuses(c, "metadata.ownerReferences[0].uid: Too long")
	s.hasFiles()
}
