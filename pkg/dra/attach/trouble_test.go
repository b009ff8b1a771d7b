package attach

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
)

// claimed is what another claim wants of the same HCA.
func claimed(uid types.UID, mode string) Interface {
	i := wants(mode)
	p := *i.Claim
	p.UID = uid
	i.Claim = &p
	return i
}

// leased has an interface ask a plugin for its address.
func leased(i Interface, config string) Interface {
	i.Device.Network.Addresses, i.Device.Network.IPAM, i.Device.Network.IPAMConfig = nil, "roce", []byte(config)
	return i
}

// linked is a pod whose namespace ends, for the driver, with end.
func linked(t *testing.T, uid types.UID) (p Pod, ns *podnettest.Namespace, end func()) {
	t.Helper()
	ns = podnettest.New(t)
	p = Pod{UID: uid, Name: "team-a/" + string(uid), Netns: filepath.Join(t.TempDir(), "netns")}
	must.NoError(t, os.Symlink(ns.Path(), p.Netns))
	return p, ns, func() {
		must.NoError(t, os.Remove(p.Netns))
	}
}

// give attaches an interface as the driver does.
func give(ctx context.Context, a *Attacher, p Pod, i Interface) (did bool, err error) {
	if err := a.Lease(ctx, p, i); err != nil {
		return false, err
	}
	return a.Attach(ctx, p, i)
}

func mustAttach(t *testing.T, a *Attacher, p Pod, i Interface) {
	t.Helper()
	did, err := give(t.Context(), a, p, i)
	must.True(t, did && err == nil, must.Sprintf("attached to %s: %v, %v", p.Name, did, err))
}

func detachAll(t *testing.T, a *Attacher, p Pod) {
	t.Helper()
	n, err := detachMatching(t.Context(), a, p, anything)
	must.True(t, err == nil && n != 0, must.Sprint(n, err))
}

func records(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "records", "*"))
	must.NoError(t, err)
	return files
}

// TestDiedWhileAsking: a driver dies between a plugin's answer and the record of it. host-local gives
// nothing twice, so the next driver gives back what it does not know.
func TestDiedWhileAsking(t *testing.T) {
	dir := t.TempDir()
	_, a := node(t, dir, "boot-1")
	a.leases.ipam = &podnet.IPAM{Owner: "rdma.dev", Dir: podnettest.Plugins(t)}
	i := leased(wants("macvlan"), `{"type": "host-local", "dataDir": "`+t.TempDir()+`", "ranges": [[{"subnet": "10.78.0.0/30", "gateway": "10.78.0.2"}]]}`)
	p := pod(t, "a")
	r, fresh, err := a.leases.register(t.Context(), newRecord(a.store.bootID, p, i))
	must.True(t, err == nil && fresh, must.Sprint(fresh, err))
	_, err = a.leases.ipam.Add(t.Context(), *r.Lease)
	must.NoError(t, err)
	mustAttach(t, a, p, i)
	s := a.State("claim", hca)
	test.True(t, s != nil && strings.Join(s.Addresses, " ") == "10.78.0.1/30", test.Sprintf("state %+v", s))
}

// TestNextClaim: the next claim gets the interface as the host had it, though that of the claim before
// came back while nobody looked, as the kernel gives it back.
func TestNextClaim(t *testing.T) {
	host, a := node(t, t.TempDir(), "boot-1")
	host.IP("addr add 10.1.0.1/24 dev ens1")
	first, ns, end := linked(t, "a")
	mustAttach(t, a, first, claimed("first", "move"))
	ns.IP("link set rdma0 down")
	ns.IP("link set rdma0 name dev0 netns " + pid(host))
	end()
	second := pod(t, "b")
	next := claimed("second", "move")
	next.Netdev = "dev0"
	mustAttach(t, a, second, next)
	detachAll(t, a, second)
	out := host.IP("-br addr show dev ens1")
	test.True(t, strings.Contains(out, "UP") && strings.Contains(out, "10.1.0.1/24"),
		test.Sprintf("on the host: %s", out))
	left, err := a.Over()
	test.True(t, err == nil && len(left) == 0, test.Sprintf("left are %v, %v", left, err))
}

func pid(n *podnettest.Namespace) string { return strconv.Itoa(n.Process()) }

// TestGoneForGood: a driver does not wait for an interface that cannot come back since its function was created again.
func TestGoneForGood(t *testing.T) {
	host, a := node(t, t.TempDir(), "boot-1")
	first, ns, end := linked(t, "a")
	mustAttach(t, a, first, claimed("first", "move"))
	end()
	_, err := a.Attach(t.Context(), pod(t, "b"), claimed("second", "move"))
	test.ErrorIs(t, err, podnet.ErrNotBack)
	ns.IP("link del rdma0")
	host.Wire("ens1")
	mustAttach(t, a, pod(t, "b"), claimed("second", "move"))
	left, err := a.Of(first)
	test.True(t, err == nil && len(left) == 0, test.Sprintf("left are %v, %v", left, err))
}

// TestAddressNotGivenBack: a plugin that does not take its address back keeps nobody from the interface, and
// is asked again, while the interface is left alone.
func TestAddressNotGivenBack(t *testing.T) {
	dir := t.TempDir()
	host, a := node(t, dir, "boot-1")
	const add = `[ $CNI_COMMAND = DEL ] || echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.78.0.1/24"}]}'`
	plugin(t, dir, add+`; [ $CNI_COMMAND = ADD ] || { echo the store is away >&2; exit 1; }`)
	first, second := pod(t, "a"), pod(t, "b")
	mustAttach(t, a, first, leased(claimed("first", "move"), `{"type": "plugin"}`))
	left, err := a.Of(first)
	must.True(t, err == nil && len(left) == 1, must.Sprint(left, err))
	test.ErrorContains(t, detachAndRelease(t.Context(), a, left[0]), "the store is away")
	host.IP("link show dev ens1")
	mustAttach(t, a, second, claimed("second", "move"))
	plugin(t, dir, add)
	detachAll(t, a, first)
	s := a.State("second", hca)
	test.True(t, s != nil && len(records(t, dir)) == 1,
		test.Sprintf("of the second is known %+v, and there are %q", s, records(t, dir)))
	detachAll(t, a, second)
	host.IP("link show dev ens1")
}

// TestPathOfAnother: the path of a namespace is another sandbox's by now, so the first one's is over.
func TestPathOfAnother(t *testing.T) {
	host, a := node(t, t.TempDir(), "boot-1")
	first, ns, end := linked(t, "a")
	mustAttach(t, a, first, claimed("first", "move"))
	ns.IP("link set rdma0 down")
	ns.IP("link set rdma0 netns " + pid(host)) // as the kernel does
	end()
	second, _, _ := linked(t, "b")
	must.NoError(t, os.Symlink(second.Netns, first.Netns))
	second.Netns = first.Netns
	mustAttach(t, a, second, claimed("second", "move"))
	left, err := a.Of(second)
	test.True(t, err == nil && len(left) == 1 && left[0].Original.Name == "ens1",
		test.Sprintf("records %v, %v", left, err))
}

// TestEndedSandbox: a sandbox that has ended takes nothing from the pod's next one.
func TestEndedSandbox(t *testing.T) {
	_, a := node(t, t.TempDir(), "boot-1")
	ended, _, end := linked(t, "a")
	end()
	now := pod(t, "a")
	for _, mode := range []string{"move", "macvlan"} {
		mustAttach(t, a, now, wants(mode))
		_, err := a.Attach(t.Context(), ended, wants(mode))
		test.ErrorIs(t, err, rdmanetns.ErrEnded)
		test.NotNil(t, a.State("claim", hca), test.Sprint("the pod has lost its interface"))
		detachAll(t, a, now)
	}
}

// TestNotSeen: a driver that does not see the directory of namespaces does not take them for ended.
func TestNotSeen(t *testing.T) {
	_, a := node(t, t.TempDir(), "boot-1")
	p, _, end := linked(t, "a")
	mustAttach(t, a, p, wants("macvlan"))
	end()
	must.NoError(t, os.Remove(filepath.Dir(p.Netns)))
	over, err := a.Over()
	test.True(t, err == nil && len(over) == 0, test.Sprintf("over are %v, %v", over, err))
}

// TestRecords: a record that cannot be written, be it before or after the interface, and one that a crash of
// the node left empty.
func TestRecords(t *testing.T) {
	dir := t.TempDir()
	host, a := node(t, dir, "boot-1")
	p := pod(t, "a")
	i := wants("move")
	empty := filepath.Join(dir, "records", "claim."+hca+".a.json")
	must.NoError(t, os.WriteFile(empty, nil, 0o600))
	mustAttach(t, a, p, i)
	detachAll(t, a, p)

	small := filepath.Join(dir, "records")
	must.NoError(t, unix.Mount("records", small, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { unix.Unmount(small, unix.MNT_DETACH) })
	plugin(t, dir, `[ $CNI_COMMAND = DEL ] || { dd if=/dev/zero of=`+small+`/full 2>/dev/null; echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.78.0.1/24"}]}'; }`)
	for range 2 { // the second time it is full from the start
		_, err := give(t.Context(), a, p, leased(i, `{"type": "plugin"}`))
		test.True(t, errors.Is(err, unix.ENOSPC) && strings.Contains(err.Error(), small),
			test.Sprintf("error %v", err))
		undo(t, a, p)
		host.IP("link show dev ens1")
		left := records(t, dir)
		test.Len(t, 1, left, test.Sprintf("left are %q", left))
	}
	must.NoError(t, unix.Mount("", small, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, err := give(t.Context(), a, p, i)
	test.ErrorIs(t, err, unix.EROFS)
	host.IP("link show dev ens1")
}

// TestTwoDrivers: during a rolling update two drivers hear of the same pod at the same time.
func TestTwoDrivers(t *testing.T) {
	dir := t.TempDir()
	host, a := node(t, dir, "boot-1")
	b := on(t, host, dir, "boot-1")
	for _, mode := range []string{"move", "macvlan"} {
		p := pod(t, "a")
		var all sync.WaitGroup
		done := make(chan bool, 2)
		for _, one := range []*Attacher{a, b} {
			all.Go(func() {
				did, err := one.Attach(t.Context(), p, wants(mode))
				test.NoError(t, err)
				done <- did
			})
		}
		all.Wait()
		first, second := <-done, <-done
		test.True(t, first != second, test.Sprint("both have done it, or none"))
		left, err := a.Of(p)
		must.True(t, err == nil && len(left) == 1, must.Sprint(left, err))
		for _, one := range []*Attacher{a, b} {
			all.Go(func() {
				test.NoError(t, detachAndRelease(t.Context(), one, left[0]))
			})
		}
		all.Wait()
		host.IP("link show dev ens1")
	}
}

// TestLateNews: what is known of an earlier sandbox of a pod says nothing of the one that it has now.
func TestLateNews(t *testing.T) {
	dir := t.TempDir()
	_, a := node(t, dir, "boot-1")
	log := filepath.Join(dir, "log")
	plugin(t, dir, `echo $CNI_COMMAND >>`+log+`; [ $CNI_COMMAND = DEL ] || echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.78.0.1/24"}]}'`)
	first, now := pod(t, "a"), pod(t, "a")
	i := leased(wants("macvlan"), `{"type": "plugin"}`)
	mustAttach(t, a, first, i)
	old, err := a.Of(first)
	must.True(t, err == nil && len(old) == 1, must.Sprint(old, err))
	mustAttach(t, a, now, i)
	test.NoError(t, detachAndRelease(t.Context(), a, old[0]))
	got, err := os.ReadFile(log)
	test.True(t, err == nil && string(got) == "ADD\nDEL\nADD\n" && a.State("claim", hca) != nil,
		test.Sprintf("the plugin was asked %q, %v", got, err))
}

// TestAddressInUse: as long as the pod may have the interface, nobody else gets its address.
func TestAddressInUse(t *testing.T) {
	dir := t.TempDir()
	host, a := node(t, dir, "boot-1")
	log := filepath.Join(dir, "log")
	plugin(t, dir, `echo $CNI_COMMAND >>`+log+`; [ $CNI_COMMAND = DEL ] || echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.78.0.1/24"}]}'`)
	p, _, _ := linked(t, "a")
	mustAttach(t, a, p, leased(wants("move"), `{"type": "plugin"}`))
	left, err := a.Of(p)
	must.True(t, err == nil && len(left) == 1, must.Sprint(left, err))
	inTheWay := "_rdma" + strconv.Itoa(left[0].Original.Index)
	host.IP("link add " + inTheWay + " type veth peer name other")
	test.ErrorIs(t, detachAndRelease(t.Context(), a, left[0]), podnet.ErrInPod)
	got, err := os.ReadFile(log)
	test.True(t, err == nil && string(got) == "ADD\n", test.Sprintf("the plugin was asked %q, %v", got, err))
	host.IP("link del " + inTheWay)
	detachAll(t, a, p)
	got, err = os.ReadFile(log)
	test.True(t, err == nil && string(got) == "ADD\nDEL\n", test.Sprintf("the plugin was asked %q, %v", got, err))
}
