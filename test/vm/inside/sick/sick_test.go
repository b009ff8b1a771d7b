// Package sick holds tests that run inside the virtual machine: a real kernel's links and firmware fall sick under a
// driver, which has an API server and a kubelet of the test's.
package sick

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/counters"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/genl"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

func TestMain(m *testing.M) {
	vmtest.Guard()
	os.Exit(m.Run())
}

const (
	// patience is for emulated time, and for readings twice a minute.
	patience = 10 * time.Minute
	// poll is a little more than the interval of two readings.
	poll = 35 * time.Second
)

// The devices that the test outside asked for: rxe0 of veth0 and rxe1 of veth0p, the two ends of one cable.
const (
	ibdev0, netdev0, address0 = "rxe0", "veth0", "10.77.1.1"
	ibdev1, netdev1, address1 = "rxe1", "veth0p", "10.77.2.1"
)

// node is the guest with its driver.
type node struct {
	*testing.T
	*drivertest.API
	kubelet *drivertest.Kubelet
	state   string
	driver  *drivertest.Running
	drivers int
}

// run runs a driver that does not wait as long as others before it calls a link or a firmware sick.
func (n *node) run() {
	n.Helper()
	times := health.DefaultConfig()
	times.Sick, times.Up, times.Falls, times.Incident = 20*time.Second, 5*time.Second, 2, time.Second
	driver, err := dra.New(dra.Config{
		NodeName: drivertest.NodeName, HostRoot: "/", KubeletDir: n.kubelet.Dir, StateDir: n.state, CDIDir: n.TempDir(),
		Site: plan.DefaultSite(), Health: &times, Genl: &genl.Kernel{},
	}, n.Client(n.T))
	if err != nil {
		n.Fatal(err)
	}
	n.driver = drivertest.Run(n.T, driver)
	n.drivers++
	n.kubelet.WaitForPlugins(1)
}

// event waits for an event about a device.
func (n *node) event(reason, device string) {
	n.Helper()
	took := inside.Eventually(n.T, "event "+reason+" of "+device, patience, func() error {
		if !strings.Contains(n.said(), reason+": ") || !strings.Contains(n.said(), device) {
			return fmt.Errorf("events are:\n%s", n.said())
		}
		return nil
	})
	n.Logf("event %s after %v", reason, took.Round(time.Second))
}

// said are the reasons and messages of all events.
func (n *node) said() string {
	var out strings.Builder
	for _, e := range n.Events() {
		fmt.Fprintf(&out, "%s: %s\n", e.Reason, e.Message)
	}
	return out.String()
}

// TestSick: the firmware of a card fails and recovers, a link loses packets, and a link falls before and after a
// restart of the driver.
func TestSick(t *testing.T) {
	d := inside.NewNetdevsim(t)
	inside.Must(t, "rdma", "link", "add", "rxe2", "type", "rxe", "netdev", d.Netdev)
	t.Cleanup(func() { inside.Must(t, "rdma", "link", "del", "rxe2") })
	n := &node{T: t, API: drivertest.NewAPI(t), kubelet: drivertest.NewKubelet(t), state: t.TempDir()}
	n.run()

	n.lossy()
	d.Break()
	n.event("RDMAFirmwareFailed", "soft-rxe-"+d.Netdev)
	d.Recover()
	n.event("RDMAFirmwareRecovered", "soft-rxe-"+d.Netdev)
	if said := n.said(); strings.Contains(said, "soft-rxe-"+netdev0) || strings.Contains(said, "soft-rxe-"+netdev1) {
		t.Errorf("lost packets make a link sick: the events are\n%s", said)
	}

	n.fall()
	inside.Eventually(t, "an incident in the state", patience, n.knowsFall)
	test.StrNotContains(t, n.said(), "RDMAPortFlapping", test.Sprint("one fall is flapping"))
	n.driver.Stop()
	n.run()
	n.fall()
	n.event("RDMAPortFlapping", "soft-rxe-"+netdev0)
}

// fall takes the carrier of both ends away for a moment.
func (n *node) fall() {
	n.Helper()
	inside.Must(n.T, "ip", "link", "set", netdev1, "down")
	time.Sleep(time.Second) // a fall lasts, and is not waited for
	inside.Must(n.T, "ip", "link", "set", netdev1, "up")
}

// knowsFall returns an error until a file for the next driver has a fall.
func (n *node) knowsFall() error {
	found := false
	err := filepath.WalkDir(n.state, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			content, _ := os.ReadFile(path)
			found = found || strings.Contains(string(content), `"falls"`)
		}
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("no file below %s has a fall", n.state)
	}
	return err
}

// lossy sends RDMA traffic over a link that loses packets. Counters of the transport rise, which the driver's metrics
// have, and two readings later there is no event.
func (n *node) lossy() {
	n.Helper()
	for _, end := range [][3]string{{netdev0, address1, netdev1}, {netdev1, address0, netdev0}} {
		mac := strings.TrimSpace(n.file("/sys/class/net/" + end[2] + "/address"))
		inside.Must(n.T, "ip", "route", "add", end[1]+"/32", "dev", end[0])
		inside.Must(n.T, "ip", "neigh", "replace", end[1], "lladdr", mac, "dev", end[0])
		for key, value := range map[string]string{"accept_local": "1", "rp_filter": "0"} {
			if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+end[0]+"/"+key, []byte(value), 0); err != nil {
				n.Fatal(err)
			}
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("0"), 0); err != nil {
		n.Fatal(err)
	}
	n.traffic() // without loss
	before := n.retransmissions()
	inside.Must(n.T, "tc", "qdisc", "add", "dev", netdev0, "root", "netem", "loss", "5%")
	n.traffic()
	inside.Must(n.T, "tc", "qdisc", "del", "dev", netdev0, "root")
	if after := n.retransmissions(); after <= before {
		n.Errorf("the counters of retransmissions were %d, and with packets lost they are %d", before, after)
	} else {
		n.Logf("the counters of retransmissions were %d, and with packets lost they are %d", before, after)
	}
	time.Sleep(2 * poll) // for two readings, whose result is no event
}

// traffic sends messages from one end to the other and back.
func (n *node) traffic() {
	n.Helper()
	args := []string{"-n", "300", "-s", "1024", "-g"}
	server := exec.Command("ibv_rc_pingpong", append(append([]string{"-d", ibdev1}, args...), n.gid(ibdev1, address1))...)
	if err := server.Start(); err != nil {
		n.Fatal(err)
	}
	client := append(append([]string{"ibv_rc_pingpong", "-d", ibdev0}, args...), n.gid(ibdev0, address0), address1)
	inside.Eventually(n.T, "traffic", patience, func() error {
		if r := inside.Run(client...); r.Code != 0 {
			return fmt.Errorf("ibv_rc_pingpong: %s", r.Out)
		}
		return nil
	})
	if err := server.Wait(); err != nil {
		n.Errorf("the server of the traffic: %v", err)
	}
}

// gid returns the index of the RoCE v2 GID of an address.
func (n *node) gid(ibdev, address string) string {
	n.Helper()
	var octets [4]int
	fmt.Sscanf(address, "%d.%d.%d.%d", &octets[0], &octets[1], &octets[2], &octets[3])
	want := fmt.Sprintf("0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", octets[0], octets[1], octets[2], octets[3])
	dir := "/sys/class/infiniband/" + ibdev + "/ports/1/gids"
	entries, err := os.ReadDir(dir)
	if err != nil {
		n.Fatal(err)
	}
	for _, e := range entries {
		if strings.TrimSpace(n.file(filepath.Join(dir, e.Name()))) == want {
			return e.Name()
		}
	}
	n.Fatalf("%s has no GID %s", ibdev, want)
	return ""
}

// file returns what a file contains, nothing if it cannot be read: an empty slot of the table of GIDs cannot.
func (n *node) file(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(content)
}

// retransmissions are the sum of the counters of both ends that lost packets raise.
func (n *node) retransmissions() (sum uint64) {
	for _, ibdev := range []string{ibdev0, ibdev1} {
		for _, c := range counters.ReadPort(sysfs.DirFS("/sys"), ibdev, 1).Hardware {
			switch c.Name {
			case "duplicate_request", "out_of_seq_request", "rcvd_seq_err", "completer_retry_err":
				sum += c.Value
			}
		}
	}
	return sum
}
