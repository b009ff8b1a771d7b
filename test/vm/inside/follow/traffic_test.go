package follow

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// podInterface is the name that an interface has in its pod where the claim says none.
const podInterface = "rdma0"

// end is a pod with a device and its network interface.
type end struct{ pod, container, ibdev string }

// link is what ip says of the interface in the pod's network namespace.
func (e end) link(t *testing.T) *link {
	t.Helper()
	links, err := linksOf("nsenter", "--net", "--target", strconv.Itoa(sandbox(t, e.pod)))
	must.NoError(t, err)
	for _, l := range links {
		if l.Name == podInterface && l.up() && len(l.addresses()) == 1 {
			return l
		}
	}
	t.Fatalf("pod %s has no %s with an address that is up: %v", e.pod, podInterface, links)
	return nil
}

func (e end) address(t *testing.T) netip.Addr {
	t.Helper()
	return netip.MustParsePrefix(e.link(t).addresses()[0]).Addr()
}

// tell has a container say of itself how its interface is called, and the device's GIDs with indexes, interfaces and
// types.
const tell = `env | grep -E "^RDMA_(INTERFACE|GID_INDEX)_"
cd /sys/class/infiniband/%s/ports/1 && for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
	n=$(cat gid_attrs/ndevs/$i 2>/dev/null) && echo "gid $i $n $(cat gids/$i) $(cat gid_attrs/types/$i)"
done; true`

// described checks that pod, claim and kernel say the same of the interface: the container's variables
// are its name and the index of its GID, the claim's status has it as ip has it, and the GID of its address is
// that of this interface.
func (e end) described(t *testing.T) {
	t.Helper()
	l := e.link(t)
	test.Eq(t, "0", e.acceptRA(t),
		test.Sprintf("pod %s: routers on the fabric can give %s addresses: accept_ra", e.pod, l.Name))
	said, err := exec(t.Context(), e.pod, e.container, fmt.Sprintf(tell, e.ibdev))
	must.NoError(t, err)
	variable := e.variable(t)
	four := e.address(t).As4()
	gid := fmt.Sprintf("0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", four[0], four[1], four[2], four[3])
	inside.Wants(t, "container of pod "+e.pod, said, "RDMA_INTERFACE_"+variable+"="+podInterface+"\n")
	_, index, _ := strings.Cut(said, "RDMA_GID_INDEX_"+variable+"=")
	index, _, _ = strings.Cut(index, "\n")
	inside.Wants(t, "container of pod "+e.pod, said, "gid "+index+" "+podInterface+" "+gid+" RoCE v2\n")
	if n := strings.Count(said, gid+" RoCE v2"); n != 1 {
		t.Errorf("%d entries have the GID %s:\n%s", n, gid, said)
	}
	want := resourceapi.NetworkDeviceData{InterfaceName: podInterface, HardwareAddress: l.MAC, IPs: l.addresses()}
	inside.Eventually(t, "status of the claim of pod "+e.pod, time.Minute, func() error {
		got := e.claim(t).Status.Devices[0].NetworkData
		if got == nil || got.InterfaceName != want.InterfaceName || got.HardwareAddress != want.HardwareAddress ||
			!slices.Equal(got.IPs, want.IPs) {
			return fmt.Errorf("it says %v, and ip %v", got, want)
		}
		return nil
	})
}

// acceptRA is whether the pod's interface accepts what routers announce, as sysctl has it.
func (e end) acceptRA(t *testing.T) string {
	t.Helper()
	target := strconv.Itoa(sandbox(t, e.pod))
	return strings.TrimSpace(inside.Must(t, "nsenter", "--net", "--target", target,
		"sysctl", "-n", "net.ipv6.conf."+podInterface+".accept_ra"))
}

// variable is the end of the names of the container's variables.
func (e end) variable(t *testing.T) string {
	t.Helper()
	device := strings.TrimPrefix(e.claim(t).Status.Devices[0].Device, "shared-")
	return strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToUpper(device))
}

// claim is that of the pod, as soon as its status has a device.
func (e end) claim(t *testing.T) (c *resourceapi.ResourceClaim) {
	t.Helper()
	p := get(t, e.pod)
	name := p.Spec.ResourceClaims[0].ResourceClaimName
	if name == nil { // of a template
		name = p.Status.ResourceClaimStatuses[0].ResourceClaimName
	}
	inside.Eventually(t, "claim of pod "+e.pod, time.Minute, func() (err error) {
		c, err = client.ResourceV1().ResourceClaims(namespace).Get(t.Context(), *name, metav1.GetOptions{})
		if err == nil && len(c.Status.Devices) != 1 {
			err = fmt.Errorf("its status tells of %d devices", len(c.Status.Devices))
		}
		return err
	})
	return c
}

// sent is how many packets the pod's interface has sent.
func (e end) sent(t *testing.T) int { return e.link(t).Stats.Tx.Packets }

// write has one pod write into the other's memory, without rdma_cm: each names its GID by the index that its container
// was told for an interface.
func write(t *testing.T, server, client end, to, from, address string) {
	t.Helper()
	const command = `env | grep ^RDMA_
hca=$(env | sed -n 's/^RDMA_INTERFACE_\(.*\)=%s$/\1/p')
eval "timeout 100 ib_write_bw 2>&1 -d \$RDMA_DEVICE_$hca -x \$RDMA_GID_INDEX_$hca -u 20 -F -n 20 -s 1024 %s"`
	listening := make(chan string, 1)
	go func() {
		out, err := exec(t.Context(), server.pod, server.container, fmt.Sprintf(command, to, ""))
		listening <- fmt.Sprint(out, err)
	}()
	inside.Eventually(t, fmt.Sprint("ib_write_bw to ", server.pod), 2*time.Minute, func() error {
		out, err := exec(t.Context(), client.pod, client.container, fmt.Sprintf(command, from, address))
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		inside.Wants(t, "the client", out, "BW average")
		return nil
	})
	inside.Wants(t, "the server", <-listening, "BW average")
}

// talk has two pods talk by rdma_cm on their own addresses.
func talk(t *testing.T, server, client end) {
	t.Helper()
	rping(t, server, client, server.address(t).String(), client.address(t).String())
}

// rping has a client talk to a server by rdma_cm, from an address to another one.
func rping(t *testing.T, server, client end, to, from string) {
	t.Helper()
	listening := make(chan string, 1)
	go func() {
		out, err := exec(t.Context(), server.pod, server.container,
			fmt.Sprintf("timeout 100 rping -s -a %s -C 3 -v 2>&1", to))
		listening <- fmt.Sprint(out, err)
	}()
	inside.Eventually(t, fmt.Sprint("rping ", to), 2*time.Minute, func() error {
		out, err := exec(t.Context(), client.pod, client.container,
			fmt.Sprintf("timeout 30 rping -c -a %s -I %s -C 3 -v 2>&1", to, from))
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		inside.Wants(t, "the client", out, "ping data: rdma-ping-0", "ping data: rdma-ping-2")
		return nil
	})
	inside.Wants(t, "the server", <-listening, "server ping data: rdma-ping-0")
}
