package podnet_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
)

// says fails the test unless an error has all the texts.
func says(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want %q", err, text)
		}
	}
}

// TestIpvlan: an ipvlan has the hardware address of the host's interface, passes packets to its siblings, and does the
// work of layer 2.
func TestIpvlan(t *testing.T) {
	kind(t, podnet.Ipvlan)
	host, h := newHost(t)
	pod := podnettest.New(t)
	_, state := attach(t, h, pod, want(podnet.Ipvlan, nil))
	if mac := strings.Fields(host.IP("-br link show dev ens1"))[2]; state.MAC != mac {
		t.Errorf("hardware address %s, want %s", state.MAC, mac)
	}
	if out := pod.IP("-d link show dev rdma0"); !strings.Contains(out, "ipvlan  mode l2 bridge") {
		t.Errorf("it is %s", out)
	}
}

// TestOtherKind: macvlans and ipvlans do not share an interface. Who has the other kind is said before a pod waits for
// its interface, where the host can know, and when the kernel refuses it.
func TestOtherKind(t *testing.T) {
	kind(t, podnet.Ipvlan)
	for mode, other := range map[string]string{podnet.Macvlan: "ipvlan", podnet.Ipvlan: "macvlan"} {
		for where, who := range map[string]string{"host": "the host's there has a " + other, "pod": "another network namespace"} {
			t.Run(mode+", other on the "+where, func(t *testing.T) {
				host, h := newHost(t)
				pod, has := podnettest.New(t), podnettest.New(t)
				o, err := h.Inspect("ens1", "", mode)
				if err != nil {
					t.Fatal(err)
				}
				host.IP("link add link ens1 name there type " + other)
				if where == "host" {
					says(t, h.Usable("ens1", "", mode), who, "use network.mode "+other)
				} else {
					host.IP(fmt.Sprintf("link set there netns %d", has.Process()))
				}
				_, err = h.Attach(pod.Path(), o, want(mode, nil))
				says(t, err, unix.EBUSY.Error(), who, "use network.mode "+other)
				if err := h.Detach(pod.Path(), o, want(mode, nil)); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
