package cluster

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// podInterface is the interface that the pod gets, by the name that Multus gives.
const podInterface = "net1"

// plumb does what the CNI plugin macvlan does: it makes an interface on that of the pod's
// device, and gives it to the pod, with addresses. The kernel makes GIDs of these. The
// next container that begins tells the driver to look.
func (h *hardware) plumb() {
	h.Helper()
	process := fmt.Sprint(h.process())
	h.run("ip link add " + podInterface + " link dummy0 type macvlan mode bridge")
	h.run("ip link set " + podInterface + " netns " + process)
	for _, command := range []string{"link set %s up", "address add 10.77.9.5/24 dev %s", "address add fd77:9::5/64 dev %s nodad"} {
		h.run("nsenter --net --target " + process + " ip " + fmt.Sprintf(command, podInterface))
	}
}

// networkData waits until the claim's status has the interface of the pod, as ip tells of
// it in the pod's own network namespace.
func (h *hardware) networkData() {
	h.Helper()
	want := h.podLink()
	inside.Eventually(h.T, "networkData of the claim", patience, func() error {
		claim, err := h.client.ResourceV1().ResourceClaims("default").Get(h.Context(), "held", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(claim.Status.Devices) != 1 || claim.Status.Devices[0].NetworkData == nil {
			return fmt.Errorf("the status is %v", claim.Status.Devices)
		}
		got := claim.Status.Devices[0].NetworkData.DeepCopy()
		slices.Sort(got.IPs)
		if !reflect.DeepEqual(got, want) {
			return fmt.Errorf("the status says %+v, and ip %+v", *got, *want)
		}
		return nil
	})
}

// podLink is what ip says of the pod's interface. A GID has no prefix length, so each
// address stands alone.
func (h *hardware) podLink() *resourceapi.NetworkDeviceData {
	h.Helper()
	out := inside.Must(h.T, "nsenter", "--net", "--target", fmt.Sprint(h.process()), "ip", "-json", "address", "show", "dev", podInterface)
	var links []struct {
		Address  string
		AddrInfo []struct{ Family, Local, Scope string } `json:"addr_info"`
	}
	if err := json.Unmarshal([]byte(out), &links); err != nil || len(links) != 1 {
		h.Fatalf("ip says %s: %v", out, err)
	}
	data := &resourceapi.NetworkDeviceData{InterfaceName: podInterface, HardwareAddress: links[0].Address}
	bits := map[string]int{"inet": 32, "inet6": 128}
	for _, a := range links[0].AddrInfo {
		if a.Scope == "global" {
			data.IPs = append(data.IPs, fmt.Sprintf("%s/%d", a.Local, bits[a.Family]))
		}
	}
	if len(data.IPs) != 2 {
		h.Fatalf("ip says %s, want an address of each family", out)
	}
	slices.Sort(data.IPs)
	return data
}
