package attach

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// on2 has an interface be one of another HCA of the node.
func on2(i Interface) Interface {
	i.Device.Device, i.Netdev = "pci-0000-4b-00-0", "ens2"
	i.Claim.Devices[0].Device = i.Device.Device
	return i
}

func at(i Interface, address string) Interface {
	i.Device.Network.Addresses = []netip.Prefix{netip.MustParsePrefix(address)}
	return i
}

// TestAddressOfTheHost: no pod gets an address that an interface of the host has, or gets back from a pod, in whichever network. What an interface
// that is moved has itself goes with it.
func TestAddressOfTheHost(t *testing.T) {
	host, a := node(t, t.TempDir(), "boot-1")
	host.Wire("ens2")
	host.IP("addr add 10.1.0.1/24 dev ens1")
	host.IP("addr add fd00::1/64 dev ens1 nodad")
	host.IP("addr add 10.2.0.1/24 dev ens2")
	refused := func(what string, i Interface, says string) {
		t.Helper()
		p := pod(t, "refused")
		_, err := a.Attach(t.Context(), p, i)
		test.ErrorContains(t, err, says, test.Sprint(what))
		left, err := a.Of(p)
		test.True(t, err == nil && len(left) == 0, test.Sprintf("%s: left are %v, %v", what, left, err))
	}
	for address, of := range map[string]string{"10.1.0.1/16": "ens1", "fd00::1/128": "ens1", "10.2.0.1/24": "ens2", "127.0.0.1/8": "lo"} {
		says := "address " + strings.Split(address, "/")[0] + " is the host's own, of " + of
		refused("macvlan", at(claimed("x", "macvlan"), address), says)
		if of != "ens1" {
			refused("move", at(claimed("x", "move"), address), says)
		}
	}
	mustAttach(t, a, pod(t, "a"), at(claimed("first", "move"), "10.1.0.1/24"))
	refused("of an interface that is in a pod", on2(at(claimed("x", "macvlan"), "fd00::1/64")), "address fd00::1 is in use on this node: pod team-a/a (a) has it by claim team-a/nic")
}

// TestAddressGivenTwice: a plugin that gives the same to all who ask gives it to one pod at a time.
func TestAddressGivenTwice(t *testing.T) {
	dir := t.TempDir()
	host, a := node(t, dir, "boot-1")
	host.Wire("ens2")
	plugin(t, dir, `[ $CNI_COMMAND = DEL ] || echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.78.0.1/24"}]}'`)
	first, second := pod(t, "a"), pod(t, "b")
	mustAttach(t, a, first, leased(claimed("first", "macvlan"), `{"type": "plugin"}`))
	for what, i := range map[string]Interface{
		"leased": leased(claimed("second", "macvlan"), `{"type": "plugin"}`), "of another HCA": on2(leased(claimed("second", "macvlan"), `{"type": "plugin"}`)),
		"fixed": at(claimed("second", "macvlan"), "10.78.0.1/24"),
	} {
		_, err := give(t.Context(), a, second, i)
		test.ErrorContains(t, err, "address 10.78.0.1 is in use on this node: pod team-a/a (a) has it",
			test.Sprint(what))
		undo(t, a, second)
		left := records(t, dir)
		test.Len(t, 1, left, test.Sprintf("%s: left are %q", what, left))
	}
	plugin(t, dir, `[ $CNI_COMMAND = ADD ] || exit 1`)
	_, err := detachMatching(t.Context(), a, first, anything)
	test.Error(t, err, test.Sprint("it is given back to a plugin that does not take it"))
	fixed := at(claimed("second", "macvlan"), "10.78.0.1/24")
	_, err = a.Attach(t.Context(), second, fixed)
	test.ErrorContains(t, err, "address 10.78.0.1 is in use", test.Sprint("not given back yet"))
	plugin(t, dir, "exit 0")
	n, err := sweep(t, a)
	test.True(t, n == 1 && err == nil, test.Sprintf("swept %d, %v", n, err))
	mustAttach(t, a, second, fixed)
}

// TestLockOfLease: a driver that was killed while a plugin was asked leaves a file that is in nobody's way, and the next driver removes it.
func TestLockOfLease(t *testing.T) {
	dir := t.TempDir()
	host, a := node(t, dir, "boot-1")
	plugin(t, dir, `[ $CNI_COMMAND = DEL ] || echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.78.0.1/24"}]}'`)
	i, p := leased(wants("macvlan"), `{"type": "plugin"}`), pod(t, "a")
	r := newRecord(a.store.bootID, p, i)
	unlock, err := a.store.lockRecord(t.Context(), r)
	must.NoError(t, err)
	b := on(t, host, dir, "boot-1") // it leaves that of the first, which is held
	left := records(t, dir)
	test.Len(t, 1, left, test.Sprintf("there are %q", left))
	done := make(chan error)
	go func() { done <- b.Lease(t.Context(), p, i) }()
	unlock()
	test.NoError(t, <-done)
	mustAttach(t, a, p, i)
	detachAll(t, b, p)
	if err := os.WriteFile(a.store.path(r)+lockSuffix, nil, 0o600); err != nil { // by the one that was killed
		t.Fatal(err)
	}
	on(t, host, dir, "boot-1")
	left = records(t, dir)
	test.SliceEmpty(t, left, test.Sprint("there"))
}

// TestRecordsUnlisted: records that cannot be listed are not the same as none. Nobody gets an address then, named or of
// the block, and no sweep takes them for undone.
func TestRecordsUnlisted(t *testing.T) {
	dir := t.TempDir()
	_, a := node(t, dir, "boot-1")
	mustAttach(t, a, pod(t, "a"), at(claimed("first", "macvlan"), "10.78.0.2/16"))
	records, away := filepath.Join(dir, "records"), filepath.Join(dir, "away")
	must.NoError(t, os.Rename(records, away))
	_, err := a.leases.next("roce", blockOf(t, 0, 24))
	test.ErrorIs(t, err, errUnlisted, test.Sprint("the block gives an address"))
	same := []netip.Prefix{netip.MustParsePrefix("10.78.0.2/16")}
	test.ErrorIs(t, a.store.others(&Record{}).checkAddresses(same), errUnlisted,
		test.Sprint("an address of a pod is free"))
	_, err = a.Over()
	test.ErrorIs(t, err, errUnlisted, test.Sprint("nothing is left to take back"))
	must.NoError(t, os.Rename(away, records))
	err = a.store.others(&Record{}).checkAddresses(same)
	test.True(t, err != nil && !errors.Is(err, errUnlisted), test.Sprintf("the records are back: error %v", err))
}
