package attach

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

const hca = "pci-0000-3b-00-0"

// node is a host with one interface, and what attaches it.
func node(t *testing.T, dir, boot string) (*podnettest.Namespace, *Attacher) {
	t.Helper()
	host := podnettest.New(t)
	host.Wire("ens1")
	return host, on(t, host, dir, boot)
}

func on(t *testing.T, host *podnettest.Namespace, dir, boot string) *Attacher {
	t.Helper()
	a, err := New(podnet.On(host.Namespace, "rdma.dev", nil), &podnet.IPAM{Owner: "rdma.dev", Dir: filepath.Join(dir, "plugins")}, filepath.Join(dir, "records"), boot)
	must.NoError(t, err)
	return a
}

// wants is what a claim wants: a mode, or a mode in VLAN 100 ("macvlan.100").
func wants(mode string) Interface {
	mode, inVLAN := strings.CutSuffix(mode, ".100")
	vlan := 0
	if inVLAN {
		vlan = 100
	}
	addresses := []netip.Prefix{netip.MustParsePrefix("10.9.0.2/24")}
	d := plan.Device{
		Device: hca, VLAN: vlan, Network: &plan.Network{Mode: mode, Interface: "rdma0", Addresses: addresses},
	}
	return Interface{Claim: &plan.Plan{UID: "claim", Namespace: "team-a", Name: "nic", Devices: []plan.Device{d}}, Device: d, Netdev: "ens1"}
}

func pod(t *testing.T, uid types.UID) Pod {
	t.Helper()
	return Pod{UID: uid, Name: "team-a/" + string(uid), Netns: podnettest.New(t).Path()}
}

// TestOneAtATime: what one pod has no other gets, until the first one's sandbox has ended; macvlans
// are for all.
func TestOneAtATime(t *testing.T) {
	_, a := node(t, t.TempDir(), "boot-1")
	first, second := pod(t, "a"), pod(t, "b")
	if did, err := a.Attach(t.Context(), first, wants("move")); !did || err != nil {
		t.Fatal(did, err)
	}
	if did, err := a.Attach(t.Context(), first, wants("move")); did || err != nil {
		t.Errorf("again: %v, %v", did, err)
	}
	if _, err := a.Attach(t.Context(), second, wants("move")); err == nil || !strings.Contains(err.Error(), `"ens1" of the host is in pod team-a/a (a)`) {
		t.Errorf("error %v", err)
	}
	another := pod(t, "a") // its next sandbox, before the end of the first one was heard of
	if did, err := a.Attach(t.Context(), another, wants("move")); !did || err != nil {
		t.Errorf("in the next sandbox: %v, %v", did, err)
	}
	if records, err := a.Of(first); err != nil || len(records) > 0 {
		t.Errorf("of the first sandbox are left %v, %v", records, err)
	}
	records, err := a.Of(another)
	must.True(t, err == nil && len(records) == 1, must.Sprint(records, err))
	must.NoError(t, detachAndRelease(t.Context(), a, records[0]))
	for _, p := range []Pod{first, second} {
		i := wants("macvlan")
		i.Device.Network.Addresses = nil
		did, err := a.Attach(t.Context(), p, i)
		test.True(t, did && err == nil, test.Sprintf("macvlan: %v, %v", did, err))
	}
	s := a.State("claim", hca)
	test.True(t, s != nil && s.Name == "rdma0", test.Sprintf("state %v", s))
}

// TestReboot: after it the host's interfaces are as they are, and only addresses are given back.
func TestReboot(t *testing.T) {
	dir := t.TempDir()
	host, a := node(t, dir, "boot-1")
	log := filepath.Join(dir, "log")
	plugin(t, dir, `echo $CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME >>`+log+`; [ $CNI_COMMAND = DEL ] || echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.78.0.1/24"}]}'`)
	i := wants("move")
	i.Device.Network.Addresses, i.Device.Network.IPAM, i.Device.Network.IPAMConfig = nil, "roce", []byte(`{"type": "plugin"}`)
	p := pod(t, "a")
	_, err := give(t.Context(), a, p, i)
	must.NoError(t, err)
	s := a.State("claim", hca)
	test.True(t, s != nil && strings.Join(s.Addresses, " ") == "10.78.0.1/24", test.Sprintf("state %+v", s))
	n, err := sweep(t, on(t, host, dir, "boot-2"))
	test.True(t, err == nil && n == 1, test.Sprintf("swept %d, %v", n, err))
	const want = "ADD claim." + hca + ".a rdma0\nDEL claim." + hca + ".a rdma0\n"
	got, err := os.ReadFile(log)
	test.True(t, err == nil && string(got) == want, test.Sprintf("the plugin was asked\n%s, want\n%s", got, want))
	left, err := a.Of(p)
	test.True(t, err == nil && len(left) == 0, test.Sprintf("records %v, %v", left, err))
}

// sweep takes back what is over, as the driver does, and returns how many were.
func sweep(t *testing.T, a *Attacher) (n int, err error) {
	t.Helper()
	over, err := a.Over()
	errs := []error{err}
	for _, r := range over {
		errs = append(errs, detachAndRelease(t.Context(), a, r))
	}
	return len(over), errors.Join(errs...)
}

// undo takes back what a pod has, as the driver does after an error.
func undo(t *testing.T, a *Attacher, p Pod) {
	t.Helper()
	_, err := detachMatching(t.Context(), a, p, func(r Record) bool { return r.State == nil })
	test.NoError(t, err)
}

// detachAndRelease undoes a record, as a pod's end does: it detaches the interface, and releases the address also after
// an error.
func detachAndRelease(ctx context.Context, a *Attacher, r Record) error {
	err := a.Detach(ctx, r)
	if r.Lease != nil {
		err = errors.Join(err, a.Release(ctx, r))
	}
	return err
}

// detachMatching detaches what a pod has, as far as it matches, and returns of how much that was tried.
func detachMatching(ctx context.Context, a *Attacher, p Pod, match func(Record) bool) (n int, err error) {
	records, err := a.Of(p)
	for _, r := range records {
		if match(r) {
			n++
			err = errors.Join(err, detachAndRelease(ctx, a, r))
		}
	}
	return n, err
}

func anything(Record) bool { return true }

func plugin(t *testing.T, dir, script string) {
	t.Helper()
	must.NoError(t, os.MkdirAll(filepath.Join(dir, "plugins"), 0o755))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "plugins", "plugin"), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
}

// TestNoAddress: without an address nothing is attached, and nothing is left to undo.
func TestNoAddress(t *testing.T) {
	dir := t.TempDir()
	host, a := node(t, dir, "boot-1")
	plugin(t, dir, `[ $CNI_COMMAND = DEL ] || { echo '{"cniVersion": "1.0.0", "code": 11, "msg": "the pool is empty"}'; exit 1; }`)
	i := wants("move")
	i.Device.Network.IPAM, i.Device.Network.IPAMConfig = "roce", []byte(`{"type": "plugin"}`)
	p := pod(t, "a")
	_, err := give(t.Context(), a, p, i)
	test.ErrorContains(t, err, "the pool is empty")
	undo(t, a, p)
	host.IP("link show dev ens1")
	left, err := a.Of(p)
	test.True(t, err == nil && len(left) == 0, test.Sprintf("records %v, %v", left, err))
}

// TestBadRecords: what cannot be read is reported and stays, and no other suffers by it.
func TestBadRecords(t *testing.T) {
	dir := t.TempDir()
	_, a := node(t, dir, "boot-1")
	for name, text := range map[string]string{"x.y.z.json": "{", "newer.d.p.json": `{"version": 2, "claim": "newer", "device": "d", "pod": {"uid": "p"}}`, "other.json": `{"version": 1, "claim": "c"}`} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, "records", name), []byte(text), 0o600))
	}
	swept, err := sweep(t, a)
	for _, says := range []string{"x.y.z.json", "version 2 is not known", "other.json"} {
		test.ErrorContains(t, err, says, test.Sprintf("swept %v", swept))
	}
	_, err = a.Attach(t.Context(), pod(t, "a"), wants("macvlan"))
	test.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(dir, "records", "*"))
	test.True(t, len(files) == 4 && err == nil, test.Sprintf("left are %v, %v", files, err))
}

// TestNotBackYet: as long as the kernel has not brought the interface back, the record stays.
func TestNotBackYet(t *testing.T) {
	host, a := node(t, t.TempDir(), "boot-1")
	netns := filepath.Join(t.TempDir(), "netns")
	p := pod(t, "a")
	must.NoError(t, os.Symlink(p.Netns, netns))
	inPod := p.Netns
	p.Netns = netns
	if _, err := a.Attach(t.Context(), p, wants("move")); err != nil {
		t.Fatal(err)
	}
	must.NoError(t, os.Remove(netns))
	if _, err := sweep(t, a); !errors.Is(err, podnet.ErrNotBack) {
		t.Errorf("error %v", err)
	}
	if err := os.Symlink(inPod, netns); err != nil { // for the test to bring it back as the kernel does
		t.Fatal(err)
	}
	records, err := a.Of(p)
	must.True(t, err == nil && len(records) == 1, must.Sprint(records, err))
	test.NoError(t, detachAndRelease(t.Context(), a, records[0]))
	host.IP("link show dev ens1")
}

// TestAddressesOfOne: fixed addresses are of one pod at a time, be it by one claim or by two.
func TestAddressesOfOne(t *testing.T) {
	_, a := node(t, t.TempDir(), "boot-1")
	first, second := pod(t, "a"), pod(t, "b")
	if did, err := a.Attach(t.Context(), first, wants("macvlan")); !did || err != nil {
		t.Fatal(did, err)
	}
	if _, err := a.Attach(t.Context(), second, wants("macvlan")); err == nil || !strings.Contains(err.Error(), "its addresses 10.9.0.2/24 are in pod team-a/a (a)") {
		t.Errorf("error %v", err)
	}
	other := wants("macvlan")
	other.Claim.UID, other.Device.Network.Interface = "another", "rdma1"
	if _, err := a.Attach(t.Context(), second, other); err == nil || !strings.Contains(err.Error(), "address 10.9.0.2 is in use on this node: pod team-a/a (a) has it by claim team-a/nic") {
		t.Errorf("another claim: %v", err)
	}
	records, err := a.Of(first)
	must.True(t, err == nil && len(records) == 1, must.Sprint(records, err))
	must.NoError(t, detachAndRelease(t.Context(), a, records[0]))
	did, err := a.Attach(t.Context(), second, wants("macvlan"))
	test.True(t, did && err == nil, test.Sprintf("when the first one has ended: %v, %v", did, err))
}

// TestOtherKind: a pod does not get an ipvlan while another one has a macvlan of the same interface, and is told who
// has it, also before it starts.
func TestOtherKind(t *testing.T) {
	dir := t.TempDir()
	_, a := node(t, dir, "boot-1")
	first, second := pod(t, "a"), pod(t, "b")
	mustAttach(t, a, first, wants("macvlan"))
	other := claimed("another", "ipvlan")
	other.Device.Network.Addresses = nil
	const says = "pod team-a/a (a) by claim team-a/nic has a macvlan there: use network.mode macvlan"
	_, err := a.Attach(t.Context(), second, other)
	for when, err := range map[string]error{"attach": err, "before": a.Usable(other)} {
		test.ErrorContains(t, err, says, test.Sprint(when))
	}
	left := records(t, dir)
	test.Len(t, 1, left, test.Sprintf("records %q", left))
	test.NoError(t, a.Usable(wants("macvlan")), test.Sprint("another macvlan"))
	detachAll(t, a, first)
	test.NoError(t, a.Usable(other), test.Sprint("without the macvlan"))
	podnettest.Kind(t, "ipvlan")
	mustAttach(t, a, second, other)
}

// TestLastOfVLAN: the VLAN interface that the driver made goes with the last pod, also with one that ended while no
// driver was there, and stays while a record is unreadable, since that may be of a pod.
func TestLastOfVLAN(t *testing.T) {
	podnettest.Kind(t, "vlan")
	dir := t.TempDir()
	host, a := node(t, dir, "boot-1")
	first, _, end := linked(t, "a")
	second := pod(t, "b")
	mustAttach(t, a, first, wants("macvlan.100"))
	other := claimed("another", "macvlan.100")
	other.Device.Network.Addresses = nil
	mustAttach(t, a, second, other)
	wantVLANs := func(when string, want int) {
		t.Helper()
		test.Eq(t, want, strings.Count(host.IP("-br link show type vlan"), "@ens1"), test.Sprint(when))
	}
	end()
	n, err := sweep(t, on(t, host, dir, "boot-1"))
	test.True(t, n == 1 && err == nil, test.Sprintf("swept %d, %v", n, err))
	wantVLANs("another pod has one", 1)
	untagged := claimed("third", "ipvlan")
	untagged.Device.Network.Addresses = nil
	test.NoError(t, a.Usable(untagged), test.Sprint("another kind without the VLAN"))
	untagged.Device.VLAN = 100
	test.ErrorContains(t, a.Usable(untagged), "pod team-a/b (b)", test.Sprint("another kind in the VLAN"))
	bad := filepath.Join(dir, "records", "x.y.z.json")
	must.NoError(t, os.WriteFile(bad, []byte("{"), 0o600))
	n, err = detachMatching(t.Context(), a, second, anything)
	test.True(t, n == 1 && err != nil && strings.Contains(err.Error(), bad),
		test.Sprintf("taken back %d, %v", n, err))
	wantVLANs("a record is unreadable", 1)
	must.NoError(t, os.Remove(bad))
	mustAttach(t, a, second, other)
	detachAll(t, a, second)
	wantVLANs("no pod has one", 0)
}
