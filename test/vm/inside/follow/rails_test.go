package follow

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// rail is one rail of a pod: an HCA with its network interface, rdma0 or rdma1.
type rail struct {
	pod, container string
	number         int
}

// rails are both rails of a pod.
func rails(pod, container string) [2]rail { return [2]rail{{pod, container, 0}, {pod, container, 1}} }

// TestRails: in shared mode two pods with two rails each talk by rdma_cm from each address to each address of the
// other pod, and packets leave by the interface of the address that sends. The rails are routed first, with a subnet
// and a gateway each: this is examples/rails.yaml. Then all are in one subnet, on a VLAN: macvlans on one rail, and
// ipvlans on bonds on the other. Without what the driver sets up, packets leave by the other rail and both interfaces
// answer for an address.
func TestRails(t *testing.T) {
	needs.Long(t, "TestTwoNodes shows the rails of two nodes, and TestOneSubnet of internal/podnet rails in one subnet")
	share(t)
	before := counted(t)
	makeRails(t)
	example := apply(t, "rails")
	allTalk(t, rails("rails-a", "app"), rails("rails-b", "app"))
	remove(t, example, "rails-a", "rails-b")

	joinRails(t)
	moreGIDs(t, railNetdev(0, 1))
	for host, name := range []string{"flat-a", "flat-b"} {
		createClaim(t, flatClaim(name, host+1))
		createPod(t, pod(name, railHCA(0, host+1), one))
	}
	a, b := rails("flat-a", "one"), rails("flat-b", "one")
	allTalk(t, a, b)
	test.False(t, commonIndex(t, a[0].pod),
		test.Sprintf("the HCAs of pod %s have one GID index, and are to have different ones", a[0].pod))
	commonIndex(t, b[0].pod)
	t.Run("without rules and settings", func(t *testing.T) { unset(t, a, b) })
	ends(t, a[0].pod)
	ends(t, b[0].pod)
	removeRails(t)
	home(t, before)
}

// allTalk has all addresses of a pod talk with all of another one, by rdma_cm and by GID index.
func allTalk(t *testing.T, a, b [2]rail) {
	t.Helper()
	ready(t, a[0].pod)
	ready(t, b[0].pod)
	for _, from := range b {
		for _, to := range a {
			from.talk(t, to)
			from.write(t, to)
		}
	}
}

// moreGIDs gives a device more GIDs than any other one has, so that the next one has an index of its own.
func moreGIDs(t *testing.T, netdev string) {
	t.Helper()
	for i := range 8 {
		inside.Must(t, "ip", "addr", "add", fmt.Sprintf("10.81.0.%d/32", i+1), "dev", netdev)
	}
}

var gidIndex = regexp.MustCompile(`(?m)^(RDMA|NCCL_IB)_GID_INDEX(_\S+)?=(\d+)$`)

// commonIndex says whether the HCAs of a pod have one GID index. Then NCCL was told, and otherwise an event says that
// it was not.
func commonIndex(t *testing.T, pod string) bool {
	t.Helper()
	said, err := exec(t.Context(), pod, "one", "env")
	must.NoError(t, err)
	var own, nccl []string
	for _, found := range gidIndex.FindAllStringSubmatch(said, -1) {
		if found[1] == "RDMA" {
			own = append(own, found[3])
		} else {
			nccl = append(nccl, found[3])
		}
	}
	must.Eq(t, 2, len(own), must.Sprintf("pod %s was told %q:\n%s", pod, own, said))
	common := own[0] == own[1]
	event := slices.ContainsFunc(events(t, pod), func(e string) bool {
		return strings.HasPrefix(e, "RDMAGIDIndexNotSet: ") && strings.Contains(e, "NCCL_IB_GID_INDEX")
	})
	if common && !slices.Equal(nccl, own[:1]) || !common && len(nccl) > 0 || common == event {
		t.Errorf("pod %s has the indexes %q, and NCCL was told %q, with an event: %t", pod, own, nccl, event)
	}
	t.Logf("pod %s has the indexes %q, and NCCL was told %q", pod, own, nccl)
	return common
}

// The HCAs of the rails, which the rules of the driver's configuration give their rail and its addresses.
func railHCA(number, host int) string { return fmt.Sprintf("rxm%d", 2*number+host+4) }

func railNetdev(number, host int) string { return fmt.Sprintf("rail%dh%d", number, host) }

func bridge(number int) string { return "rail" + strconv.Itoa(number) }

// makeRails makes two bridges with two HCAs each. The host is the gateway of both.
func makeRails(t *testing.T) {
	t.Helper()
	var wanted []string
	for number := range 2 {
		inside.Must(t, "ip", "link", "add", bridge(number), "type", "bridge")
		inside.Must(t, "ip", "addr", "add", fmt.Sprintf("10.79.%d.254/24", number), "dev", bridge(number))
		inside.Must(t, "ip", "link", "set", bridge(number), "up")
		for host := 1; host <= 2; host++ {
			netdev := railNetdev(number, host)
			inside.Must(t, "ip", "link", "add", netdev, "type", "veth", "peer", "name", netdev+"p")
			inside.Must(t, "ip", "link", "set", netdev+"p", "master", bridge(number), "up")
			inside.Must(t, "ip", "link", "set", netdev, "up")
			inside.Must(t, "rdma", "link", "add", railHCA(number, host), "type", "rxe", "netdev", netdev)
			wanted = append(wanted, railHCA(number, host))
		}
	}
	inside.Must(t, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	awaitOffer(t, wanted...)
}

// joinRails joins the bridges by a cable, and makes a bond of each interface of the second rail.
func joinRails(t *testing.T) {
	t.Helper()
	inside.Must(t, "modprobe", "bonding", "max_bonds=0") // by itself it makes a bond0
	inside.Must(t, "ip", "link", "add", "joint0", "type", "veth", "peer", "name", "joint1")
	for number := range 2 {
		inside.Must(t, "ip", "link", "set", "joint"+strconv.Itoa(number), "master", bridge(number), "up")
	}
	for host := 1; host <= 2; host++ {
		bond := "bond1h" + strconv.Itoa(host)
		inside.Must(t, "ip", "link", "add", bond, "type", "bond", "mode", "active-backup", "miimon", "100")
		inside.Must(t, "ip", "link", "set", railNetdev(1, host), "down")
		inside.Must(t, "ip", "link", "set", railNetdev(1, host), "master", bond)
		inside.Must(t, "ip", "link", "set", bond, "up")
	}
}

func removeRails(t *testing.T) {
	t.Helper()
	for number := range 2 {
		for host := 1; host <= 2; host++ {
			inside.Must(t, "rdma", "link", "del", railHCA(number, host))
			inside.Must(t, "ip", "link", "del", railNetdev(number, host))
		}
		inside.Must(t, "ip", "link", "del", bridge(number))
		inside.Must(t, "ip", "link", "del", "bond1h"+strconv.Itoa(number+1))
	}
	inside.Must(t, "ip", "link", "del", "joint0")
}

// flatClaim asks for both rails of a host, with addresses in one subnet on a VLAN, and for NCCL's GID index.
func flatClaim(name string, host int) *resourceapi.ResourceClaim {
	const network = `{"addresses":["10.79.2.%d/24"],"mode":%q,"vlan":100}`
	c := networked(name, railHCA(0, host), fmt.Sprintf(network, host, "macvlan"))
	second := networked(name, railHCA(1, host), fmt.Sprintf(network, 2+host, "ipvlan")).Spec.Devices
	devices := &c.Spec.Devices
	devices.Requests[0].Name, second.Requests[0].Name = "rail-0", "rail-1"
	devices.Config[0].Requests, second.Config[0].Requests = []string{"rail-0"}, []string{"rail-1"}
	devices.Requests = append(devices.Requests, second.Requests...)
	devices.Config = append(devices.Config, second.Config...)
	for _, c := range devices.Config {
		parameters := &c.Opaque.Parameters
		parameters.Raw = bytes.Replace(parameters.Raw, []byte(`"kind"`), []byte(`"env":["nccl-gid-index"],"kind"`), 1)
	}
	return c
}

// unset takes away what the driver set in the pod b. Before, TCP connections from an address leave by its interface, as
// those with which libraries find each other. Then each leaves by the other one.
func unset(t *testing.T, a, b [2]rail) {
	const times = 20
	asked, to := b[0].address(t), a[0].address(t)
	if got := a[0].answers(t, asked, 3); len(got) != 1 {
		t.Errorf("%s is the address of %v, want of one interface", asked, got)
	}
	if own, others := b[1].connect(t, to, times); own < times || others >= times {
		t.Errorf("%d packets left by the interface of their address, and %d by the other", own, others)
	}
	for _, r := range b {
		r.command(t, "ip", "rule", "del", "from", r.address(t))
	}
	b[0].command(t, "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=0", "net.ipv4.conf.rdma0.arp_ignore=0",
		"net.ipv4.conf.rdma1.arp_ignore=0")
	if got := a[0].answers(t, asked, times); len(got) != 2 || got[0] != times || got[1] != times {
		t.Errorf("of %d times, interfaces answered for %s %v times, want two each time", times, asked, got)
	}
	if own, others := b[1].connect(t, to, times); own >= times || others < times {
		t.Errorf("without rules %d packets left by the interface of their address, and %d by the other", own, others)
	}
}

// connect opens TCP connections from the rail's address to a port where nobody listens, and returns how many packets
// each of the pod's rails has sent.
func (r rail) connect(t *testing.T, to string, times int) (own, others int) {
	t.Helper()
	const script = `for (1..$ARGV[2]) {
		$@ = ""; IO::Socket::INET->new(LocalAddr => $ARGV[0], PeerAddr => "$ARGV[1]:1", Timeout => 10);
		die "connection $_: $@" unless $!{ECONNREFUSED};
	}`
	own, others = r.count(t, func() {
		r.command(t, "perl", "-MErrno", "-MIO::Socket::INET", "-e", script, r.address(t), to, strconv.Itoa(times))
	})
	t.Logf("%d TCP connections from %s: %s sent %d packets, and the other interface %d", times, r.address(t), r.netdev(),
		own, others)
	return own, others
}

// answers counts the answers to ARP requests for an address, for each hardware address that answers.
func (r rail) answers(t *testing.T, address string, times int) (counts []int) {
	t.Helper()
	said := r.command(t, "busybox", "arping", "-b", "-c", strconv.Itoa(times), "-I", r.netdev(), address)
	macs := map[string]int{}
	for line := range strings.Lines(said) {
		if _, mac, found := strings.Cut(line, "["); found && strings.Contains(line, "reply") {
			mac, _, _ = strings.Cut(mac, "]")
			macs[mac]++
		}
	}
	return slices.Sorted(maps.Values(macs))
}

// enter is the start of a command in the network namespace of the rail's pod.
func (r rail) enter(t *testing.T) []string {
	t.Helper()
	return []string{"nsenter", "--net", "--target", strconv.Itoa(sandbox(t, r.pod))}
}

// command runs a program of the machine in the network namespace of the rail's pod.
func (r rail) command(t *testing.T, argv ...string) string {
	t.Helper()
	return inside.Must(t, append(r.enter(t), argv...)...)
}

func (r rail) netdev() string { return "rdma" + strconv.Itoa(r.number) }

func (r rail) link(t *testing.T) *link {
	t.Helper()
	links, err := linksOf(r.enter(t)...)
	must.NoError(t, err)
	for _, l := range links {
		if l.Name == r.netdev() && l.up() && len(l.addresses()) == 1 {
			return l
		}
	}
	t.Fatalf("pod %s has no %s with an address: %v", r.pod, r.netdev(), links)
	return nil
}

func (r rail) address(t *testing.T) string {
	t.Helper()
	return netip.MustParsePrefix(r.link(t).addresses()[0]).Addr().String()
}

// sent is how many packets the rail's interface has sent.
func (r rail) sent(t *testing.T) int { return r.link(t).Stats.Tx.Packets }

// count returns how many packets the rail's interface and the pod's other one send meanwhile.
func (r rail) count(t *testing.T, meanwhile func()) (own, others int) {
	t.Helper()
	other := rail{r.pod, r.container, 1 - r.number}
	own, others = r.sent(t), other.sent(t)
	meanwhile()
	return r.sent(t) - own, other.sent(t) - others
}

// talk has the rail's address talk to one of the other pod by rdma_cm. The rail's interface carries it.
func (r rail) talk(t *testing.T, to rail) {
	t.Helper()
	r.carries(t, to, func() {
		rping(t, end{to.pod, to.container, ""}, end{r.pod, r.container, ""}, to.address(t), r.address(t))
	})
}

// carries wants the rail's interface to carry a conversation, and not the pod's other one.
func (r rail) carries(t *testing.T, to rail, converse func()) {
	t.Helper()
	if own, others := r.count(t, converse); own < 10 || others > own/2 {
		t.Errorf("from %s of pod %s to %s of pod %s: it sent %d packets, and the other interface %d", r.netdev(), r.pod,
			to.netdev(), to.pod, own, others)
	}
}

// write has the rail write into the memory of one of the other pod, each by the index of its GID. The rail's interface
// carries it; the programs find each other by the pods' own network.
func (r rail) write(t *testing.T, to rail) {
	t.Helper()
	server, address := end{to.pod, to.container, ""}, get(t, to.pod).Status.PodIP
	r.carries(t, to, func() {
		write(t, server, end{r.pod, r.container, ""}, to.netdev(), r.netdev(), address)
	})
}
