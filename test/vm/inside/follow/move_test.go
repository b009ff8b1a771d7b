package follow

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// Two pods, each with a device and the interface of this device for themselves, talk by rdma_cm on the addresses of
// their claims. One of them ends while the driver is away. Devices and interfaces come back as they were.
func TestMove(t *testing.T) {
	inside.Must(t, "ip", "link", "set", "eth2", "mtu", "1450", "alias", "the first end")
	inside.Must(t, "ip", "route", "replace", "10.81.0.0/16", "via", "10.77.2.254", "dev", "eth2")
	inside.Must(t, "ip", "neigh", "replace", "10.77.2.254", "lladdr", "02:00:00:00:00:fe",
		"nud", "permanent", "dev", "eth2")
	// as hosts with rails have it
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/eth2/arp_ignore", []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := counted(t)
	server, client := end{"server", "one", "rxm1"}, end{"client", "one", "rxm2"}
	createNetworked(t, server.pod, server.ibdev,
		`{"addresses":["10.79.0.1/24"],"mode":"move","mtu":1400,`+
			`"routes":[{"destination":"10.80.0.0/16","gateway":"10.79.0.254"}]}`)
	createNetworked(t, client.pod, client.ibdev, `{"addresses":["10.79.0.2/24"],"mode":"move"}`)
	for _, e := range []end{server, client} {
		ready(t, e.pod)
		e.described(t)
	}
	links, err := linksOf()
	if err != nil || slices.ContainsFunc(links, func(l *link) bool { return l.Name == "eth2" || l.Name == "eth3" }) {
		t.Errorf("while pods have eth2 and eth3, the host has %v, %v", links, err)
	}
	if l := server.link(t); l.MTU != 1400 {
		t.Errorf("the server has %v", l)
	}
	inside.Wants(t, "the routing table of the server",
		inside.Must(t, "nsenter", "--net", "--target", strconv.Itoa(sandbox(t, server.pod)), "ip", "route"),
		"10.80.0.0/16 via 10.79.0.254 dev rdma0")
	talk(t, server, client)
	for _, e := range []end{server, client} {
		sent, err := exec(t.Context(), e.pod, e.container,
			"cat /sys/class/infiniband/"+e.ibdev+"/ports/1/hw_counters/sent_pkts")
		if err != nil || sent == "0\n" {
			t.Errorf("%s has sent %q packets, %v", e.ibdev, sent, err)
		}
	}
	ends(t, client.pod)
	endsUnseen(t, server)
	home(t, before)
}

// endsUnseen ends a pod while the driver is away: the kernel brings the interface back, under another name since its
// own in the pod is taken, down and without addresses. The next driver makes it what it was.
func endsUnseen(t *testing.T, e end) {
	t.Helper()
	mac := e.link(t).MAC
	inside.Must(t, "ip", "link", "add", podInterface, "type", "dummy")
	t.Cleanup(func() { inside.Run("ip", "link", "del", podInterface) })
	away := drivers(t)
	signal(t, syscall.SIGSTOP, away...)
	t.Cleanup(func() { signal(t, syscall.SIGKILL, away...) })
	// Without a grace period, as with kubectl delete --force.
	must.NoError(t, client.CoreV1().Pods(namespace).Delete(t.Context(), e.pod, metav1.DeleteOptions{}))
	inside.Eventually(t, "the kernel brings the interface back", 3*time.Minute, func() error {
		links, err := linksOf()
		for _, l := range links {
			if l.MAC == mac && l.Info.Kind != "macvlan" {
				t.Logf("back on the host is %v", l)
				if !strings.HasPrefix(l.Name, "dev") || l.up() || len(l.addresses()) > 0 {
					t.Errorf("it is %v", l)
				}
				return nil
			}
		}
		return errors.Join(err, errors.New("it is not there"))
	})
	inside.Must(t, "ip", "link", "del", podInterface)
	signal(t, syscall.SIGKILL, away...)
	ends(t, e.pod)
}

// The network namespace of a pod ends before the runtime is told to stop the sandbox. The pod gets
// another sandbox, with its device.
func TestNamespaceEnds(t *testing.T) {
	needs.Long(t, "TestThereAndBack shows a device that a namespace leaves behind, and TestMove an interface")
	before := counted(t)
	runs(t, "again", "rxm0", one)
	first := sandbox(t, "again")
	endNamespace(t, first)
	inside.Eventually(t, "the pod has its device in another sandbox", 4*time.Minute, func() error {
		if slices.Contains(processes(t, "pause"), first) {
			return errors.New("the first sandbox is there")
		}
		session, err := exec(t.Context(), "again", "one", look)
		if err == nil && !strings.Contains(session, "hca_id:\trxm0") {
			err = errors.New(session)
		}
		return err
	})
	ends(t, "again")
	home(t, before)
}

// endNamespace ends the network namespace of a process: it takes away the file that keeps it, and
// kills all who are in it.
func endNamespace(t *testing.T, pid int) {
	t.Helper()
	inode := func(path string) (st unix.Stat_t) {
		_ = unix.Stat(path, &st) // one that has ended is none
		return st
	}
	own := inode(fmt.Sprintf("/proc/%d/ns/net", pid))
	for _, file := range namespaces(t, nodeRoot(t)) {
		if inode(file).Ino == own.Ino {
			path := "/run/netns/" + filepath.Base(file)
			if out, err := node.Output(t.Context(), "sh", "-c", "umount --lazy "+path+" && rm "+path); err != nil {
				t.Fatalf("unmount the namespace: %v\n%s", err, out)
			}
		}
	}
	all, err := filepath.Glob("/proc/[0-9]*/ns/net")
	must.NoError(t, err)
	for _, file := range all {
		if inode(file).Ino != own.Ino {
			continue
		}
		one, err := strconv.Atoi(strings.Split(file, "/")[2])
		must.NoError(t, err)
		signal(t, syscall.SIGKILL, one)
	}
}
