package attach

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"github.com/vishvananda/netlink"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
)

// blockOf is the block of a node with a number, in 10.78.0.0/16 with the gateway 10.78.0.1.
func blockOf(t *testing.T, number, length int) blocks.Block {
	t.Helper()
	label, bits := blocks.LabelPrefix+"block", int64(length)
	pool := blocks.New(blocks.Settings{Subnet: "10.78.0.0/16", PerNode: &bits, Label: label, Gateway: "10.78.0.1"},
		func(field, format string, args ...any) { t.Fatalf(field+": "+format, args...) })
	b, err := pool.Of(blocks.Node{Name: "n", Labels: map[string]string{label: fmt.Sprint(number)}})
	must.NoError(t, err)
	return b
}

// of has the interface of a claim of its own, with an address of a block.
func of(b blocks.Block, claim types.UID) Interface {
	return leased(claimed(claim, "macvlan"), string(b.Config()))
}

// assigned returns the addresses by pod, according to the records.
func assigned(a *Attacher) map[string]string {
	out := map[string]string{}
	for _, one := range a.Addresses() {
		out[one.Pod] += one.Address.String()
	}
	return out
}

// TestBlock: pods get the addresses of the node's block in order, each with the length of the subnet and its gateway.
// An address that is free again is given only after all others.
func TestBlock(t *testing.T) {
	dir := t.TempDir()
	_, a := node(t, dir, "boot-1")
	b := blockOf(t, 0, 29) // 10.78.0.2 to 10.78.0.6
	pods := map[string]Pod{}
	attach := func(name, want string) {
		t.Helper()
		pods[name] = pod(t, types.UID(name))
		i := of(b, types.UID("claim-"+name))
		mustAttach(t, a, pods[name], i)
		s := a.State(i.Claim.UID, hca)
		test.True(t, s != nil && strings.Join(s.Addresses, " ") == want,
			test.Sprintf("%s has %+v, want %s", name, s, want))
		err := a.Lease(t.Context(), pods[name], i)
		test.True(t, err == nil && assigned(a)["team-a/"+name]+"/16" == want,
			test.Sprintf("%s, asked again: %v, %v", name, assigned(a), err))
	}
	attach("a", "10.78.0.2/16")
	attach("b", "10.78.0.3/16")
	detachAll(t, a, pods["a"])
	// The next driver knows the last address by its file.
	a, err := New(a.host, a.leases.ipam, filepath.Join(dir, "records"), "boot-1")
	must.NoError(t, err)
	attach("c", "10.78.0.4/16")
	attach("d", "10.78.0.5/16")
	attach("e", "10.78.0.6/16")
	attach("f", "10.78.0.2/16")
	records, err := a.Of(pods["f"])
	test.True(t, err == nil && len(records) == 1 && fmt.Sprint(records[0].LeasedGateways) == "[10.78.0.1]",
		test.Sprintf("records %+v, %v, want the gateway", records, err))
}

// TestBlockAndNamed: an address of the node's block that a claim names itself is a pod's as one from the block is. The
// block gives it to nobody else meanwhile, and what the block has given, no claim gets by its name. The error names the
// holder.
func TestBlockAndNamed(t *testing.T) {
	_, a := node(t, t.TempDir(), "boot-1")
	b := blockOf(t, 0, 29) // 10.78.0.2 to 10.78.0.6
	named := pod(t, "named")
	mustAttach(t, a, named, at(claimed("claim-named", "macvlan"), "10.78.0.2/32"))
	mustAttach(t, a, pod(t, "a"), of(b, "claim-a"))
	got := assigned(a)
	test.True(t, len(got) == 1 && got["team-a/a"] == "10.78.0.3", test.Sprintf("given are %v", got))
	taken := pod(t, "taken")
	const says = "address 10.78.0.3 is in use on this node: pod team-a/a (a) has it by claim team-a/nic"
	_, err := a.Attach(t.Context(), taken, at(claimed("claim-taken", "macvlan"), "10.78.0.3/24"))
	test.ErrorContains(t, err, says, test.Sprint("an address that the block has given"))
	detachAll(t, a, named)
	for i, want := range []string{"10.78.0.4", "10.78.0.5", "10.78.0.6", "10.78.0.2"} {
		uid := types.UID(fmt.Sprint("next-", i))
		mustAttach(t, a, pod(t, uid), of(b, "claim-"+uid))
		test.Eq(t, want, assigned(a)["team-a/"+string(uid)], test.Sprint("is given"))
	}
}

// TestBlockIPv6: a block of the other IP family works in the same way.
func TestBlockIPv6(t *testing.T) {
	_, a := node(t, t.TempDir(), "boot-1")
	config := `{"type": "rdma.dev/block", "subnet": "fd00:78::/48", "block": "fd00:78:0:4::/64", "gateway": "fd00:78::1"}`
	for _, name := range []string{"a", "b"} {
		mustAttach(t, a, pod(t, types.UID(name)), leased(claimed(types.UID(name), "macvlan"), config))
		want := assigned(a)["team-a/"+name] + "/48"
		s := a.State(types.UID(name), hca)
		test.True(t, s != nil && strings.Join(s.Addresses, " ") == want,
			test.Sprintf("%s has %+v, want %s", name, s, want))
	}
	got := slices.Sorted(maps.Values(assigned(a)))
	test.SliceEqOp(t, []string{"fd00:78:0:4::1", "fd00:78:0:4::2"}, got, test.Sprint("given"))
}

// TestBlockUsedUp: the error says how many addresses there are, and who has them. Nothing is left of the pod, and the
// next one gets what becomes free.
func TestBlockUsedUp(t *testing.T) {
	dir := t.TempDir()
	_, a := node(t, dir, "boot-1")
	b := blockOf(t, 4, 29)
	var all []Pod
	for n := range 6 {
		p := pod(t, types.UID(fmt.Sprint("p", n)))
		p.Name = fmt.Sprintf("team-%d/p", min(n, 1))
		all = append(all, p)
		mustAttach(t, a, p, of(b, types.UID(fmt.Sprint("claim-", n))))
	}
	late := pod(t, "late")
	const says = `get an address of ipam "roce": all 6 addresses of this node's block 10.78.0.32/29 are in use, ` +
		`5 by pods of namespace team-1, 1 by pods of namespace team-0: delete pods, or give nodes larger blocks (perNode)`
	_, err := give(t.Context(), a, late, of(b, "late"))
	test.EqError(t, err, says)
	undo(t, a, late)
	left, err := a.Of(late)
	test.True(t, err == nil && len(left) == 0, test.Sprintf("left are %v, %v", left, err))
	detachAll(t, a, all[2])
	mustAttach(t, a, late, of(b, "late"))
}

// TestBlockUnreadable: while a record cannot be read, no address is given, because the record may have it.
func TestBlockUnreadable(t *testing.T) {
	dir := t.TempDir()
	_, a := node(t, dir, "boot-1")
	bad := filepath.Join(dir, "records", "x.y.z.json")
	must.NoError(t, os.WriteFile(bad, []byte("{"), 0o600))
	p := pod(t, "a")
	_, err := give(t.Context(), a, p, of(blockOf(t, 1, 24), "c"))
	test.True(t, err != nil && strings.Contains(err.Error(), bad) &&
		strings.Contains(err.Error(), "remove the file"), test.Sprintf("error %v", err))
	must.NoError(t, os.Remove(bad))
	mustAttach(t, a, p, of(blockOf(t, 1, 24), "c"))
}

// TestBlockAndOthers: an address of the block that the host or a claim with fixed addresses has is left out.
func TestBlockAndOthers(t *testing.T) {
	host, a := node(t, t.TempDir(), "boot-1")
	host.IP("addr add 10.78.1.1/16 dev ens1")
	mustAttach(t, a, pod(t, "fixed"), at(claimed("fixed", "macvlan"), "10.78.1.2/16"))
	mustAttach(t, a, pod(t, "a"), of(blockOf(t, 1, 24), "a"))
	test.Eq(t, "10.78.1.3", assigned(a)["team-a/a"], test.Sprint("it"))
}

// TestBlockReboot: after a reboot nothing of the earlier boot has an address, and the order goes on.
func TestBlockReboot(t *testing.T) {
	dir := t.TempDir()
	host, a := node(t, dir, "boot-1")
	b, p := blockOf(t, 1, 24), pod(t, "a")
	mustAttach(t, a, p, of(b, "a"))
	if err := a.Lease(t.Context(), pod(t, "b"), of(b, "b")); err != nil { // its driver goes no further
		t.Fatal(err)
	}
	a = on(t, host, dir, "boot-2")
	n, err := sweep(t, a)
	test.True(t, n == 2 && err == nil && len(assigned(a)) == 0,
		test.Sprintf("swept %d, %v, left are %v", n, err, assigned(a)))
	mustAttach(t, a, pod(t, "c"), of(b, "a")) // the pods that the kernel had are gone with their namespaces
	test.Eq(t, "10.78.1.3", assigned(a)["team-a/c"], test.Sprint("it"))
}

// TestPluginThenBlock: a claim that is allocated again after a change of the configuration has its address of the
// earlier sandbox given back to the plugin before it gets one of the block.
func TestPluginThenBlock(t *testing.T) {
	dir := t.TempDir()
	_, a := node(t, dir, "boot-1")
	log := filepath.Join(dir, "log")
	plugin(t, dir, `echo $CNI_COMMAND >>`+log+`
[ $CNI_COMMAND = DEL ] || echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.79.0.1/24"}]}'`)
	first, _, end := linked(t, "a")
	mustAttach(t, a, first, leased(claimed("c", "macvlan"), `{"type": "plugin"}`))
	end()
	next := pod(t, "a")
	_, err := give(t.Context(), a, next, of(blockOf(t, 1, 24), "c"))
	test.ErrorContains(t, err, "has not taken back the address")
	_, err = sweep(t, a)
	test.NoError(t, err)
	mustAttach(t, a, next, of(blockOf(t, 1, 24), "c"))
	got, err := os.ReadFile(log)
	test.True(t, err == nil && string(got) == "ADD\nDEL\n", test.Sprintf("the plugin was asked %s, %v", got, err))
}

// TestAttachedMeanwhile: an address stays with its pod, though the driver was about to give it back.
func TestAttachedMeanwhile(t *testing.T) {
	_, a := node(t, t.TempDir(), "boot-1")
	p, i := pod(t, "a"), of(blockOf(t, 1, 24), "a")
	must.NoError(t, a.Lease(t.Context(), p, i))
	before, err := a.Of(p)
	must.True(t, err == nil && len(before) == 1, must.Sprint(before, err))
	mustAttach(t, a, p, i)
	err = a.leases.dropLease(t.Context(), &before[0])
	test.True(t, err == nil && assigned(a)["team-a/a"] == "10.78.1.1",
		test.Sprintf("given are %v, %v", assigned(a), err))
}

// life is a node of the cluster in TestManyAddresses, with pods that come and go.
type life struct {
	*testing.T
	*rand.Rand
	dir   string
	host  *podnettest.Namespace
	a     *Attacher
	block blocks.Block
	free  []*podnettest.Namespace // of pods that have ended
	pods  map[types.UID]*living
	boot  int
	count int
	did   map[string]int // how often what was done
}

// living is a pod with interfaces on one HCA, each of a claim of its own.
type living struct {
	Pod
	ns  *podnettest.Namespace
	has []Interface
}

func newLife(t *testing.T, number int, random *rand.Rand) *life {
	l := &life{
		T: t, Rand: random, dir: t.TempDir(), block: blockOf(t, number, 27),
		pods: map[types.UID]*living{}, did: map[string]int{},
	}
	l.host = podnettest.New(t)
	l.host.Wire("ens1")
	for range 14 {
		l.free = append(l.free, podnettest.New(t))
	}
	l.killed()
	return l
}

// killed has the next driver of the node begin with what is on the disk.
func (l *life) killed() {
	l.a = on(l.T, l.host, l.dir, fmt.Sprint("boot-", l.boot))
	l.did["kills"]++
}

// start has a pod start, as far as its driver gets: with some of its addresses and interfaces.
func (l *life) start() {
	if len(l.free) == 0 {
		return
	}
	l.count++
	uid := types.UID(fmt.Sprintf("pod-%d", l.count))
	p := &living{ns: l.free[0]}
	p.Pod = Pod{UID: uid, Name: "team-a/" + string(uid), Netns: filepath.Join(l.TempDir(), "netns")}
	l.free = l.free[1:]
	if err := os.Symlink(p.ns.Path(), p.Netns); err != nil {
		l.Fatal(err)
	}
	for n := range 1 + l.IntN(2) {
		i := of(l.block, types.UID(fmt.Sprintf("claim-%d-%d", l.count, n)))
		i.Device.Network.Interface = fmt.Sprintf("rdma%d", n)
		p.has = append(p.has, i)
	}
	l.pods[uid] = p
	l.goOn(p)
}

// goOn gives a pod what it lacks, and may stop before the end, as a driver that is killed.
func (l *life) goOn(p *living) {
	for _, step := range []func(Interface) error{
		func(i Interface) error { return l.lease(p, i) },
		func(i Interface) error { _, err := l.a.Attach(l.Context(), p.Pod, i); return err },
	} {
		for _, i := range p.has {
			if l.IntN(12) == 0 {
				l.killed()
				return
			}
			err := step(i)
			if err != nil && strings.Contains(err.Error(), "are in use") { // by pods of whose end nobody heard
				l.sweep()
				err = step(i)
			}
			if err != nil {
				l.Fatalf("%s: %v", p.Name, err)
			}
		}
	}
}

// lease gets an address, and counts it if it is a new one.
func (l *life) lease(p *living, i Interface) error {
	before := len(l.a.Addresses())
	err := l.a.Lease(l.Context(), p.Pod, i)
	l.did["allocations"] += len(l.a.Addresses()) - before
	return err
}

// stop has a pod end. Its driver hears of it, of a part of it, or of nothing.
func (l *life) stop(p *living) {
	delete(l.pods, p.UID)
	if l.IntN(3) > 0 {
		left, err := l.a.Of(p.Pod)
		if err != nil {
			l.Fatal(err)
		}
		for _, r := range left {
			if l.IntN(8) == 0 {
				l.killed()
				break
			}
			if err := l.a.Detach(l.Context(), r); err != nil {
				l.Fatal(err)
			}
			if l.IntN(8) > 0 {
				if err := l.a.Release(l.Context(), r); err != nil {
					l.Fatal(err)
				}
			}
		}
	}
	l.end(p)
}

// end ends the namespace of a pod, as the kernel does: what is in it goes.
func (l *life) end(p *living) {
	for n := range 2 {
		_, _ = p.ns.Try(fmt.Sprintf("link del rdma%d", n)) // which may have been taken back
	}
	if err := os.Remove(p.Netns); err != nil {
		l.Fatal(err)
	}
	l.free = append(l.free, p.ns)
}

// reboot ends all pods, and what the driver knows of them is of an earlier boot.
func (l *life) reboot() {
	for _, uid := range slices.Sorted(maps.Keys(l.pods)) {
		l.end(l.pods[uid])
	}
	clear(l.pods)
	l.boot++
	l.did["reboots"]++
	l.killed()
	l.sweep()
}

func (l *life) sweep() {
	if _, err := sweep(l.T, l.a); err != nil {
		l.Fatal(err)
	}
}

// step does something random.
func (l *life) step() {
	uids := slices.Sorted(maps.Keys(l.pods))
	switch n := l.IntN(100); {
	case n < 45:
		l.start()
	case n < 55 && len(uids) > 0:
		l.goOn(l.pods[uids[l.IntN(len(uids))]])
	case n < 90 && len(uids) > 0:
		l.stop(l.pods[uids[l.IntN(len(uids))]])
	case n < 92:
		l.reboot()
	default:
		l.sweep()
	}
}

// check compares the addresses of the pods' interfaces with the records.
func (l *life) check() {
	recorded := map[string]string{}
	for _, a := range l.a.Addresses() {
		if recorded[a.Address.String()] != "" {
			l.Fatalf("%s is recorded twice", a.Address)
		}
		recorded[a.Address.String()] = a.Pod
	}
	for address, name := range l.inKernel() {
		if recorded[address] != name {
			l.Fatalf("%s has %s, and the record says %q", name, address, recorded[address])
		}
	}
}

// inKernel returns the addresses that the pods' interfaces have. All are of the node's block, so no other node has
// them.
func (l *life) inKernel() map[string]string {
	out := map[string]string{}
	for uid, p := range l.pods {
		err := p.ns.Do(func() error {
			list, err := netlink.AddrList(nil, netlink.FAMILY_V4)
			for _, a := range list {
				address, _ := netip.AddrFromSlice(a.IP)
				if address.IsLoopback() {
					continue
				}
				if other := out[address.String()]; other != "" && other != p.Name {
					l.Errorf("%s is in %s and in %s", address, other, uid)
				}
				out[address.String()] = p.Name
				if !l.block.Block.Contains(address) {
					l.Errorf("%s of %s is not of %s", address, uid, l.block.Block)
				}
			}
			return err
		})
		if err != nil {
			l.Fatal(err)
		}
	}
	return out
}

// TestManyAddresses: 200 random allocations and as many releases on two nodes of a cluster, each with real interfaces,
// with drivers that are killed between any two of their steps, with pods of whose end nobody hears, and with reboots.
// No address is in two pods, each that is in one is recorded as that pod's, and in the end none is lost.
func TestManyAddresses(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	nodes := []*life{newLife(t, 2, random), newLife(t, 3, random)}
	allocations := 200
	if needs.IsLong() {
		allocations = 2000
	}
	for nodes[0].did["allocations"]+nodes[1].did["allocations"] < allocations {
		l := nodes[random.IntN(2)]
		l.step()
		l.check()
		if t.Failed() {
			return
		}
	}
	for _, l := range nodes {
		t.Log(l.did)
		for _, p := range l.pods {
			l.goOn(p)
		}
		l.reboot()
		test.SliceEmpty(t, l.a.Addresses(), test.Sprint("lost"))
		got := map[netip.Addr]bool{}
		for n := range l.block.Size() { // by records alone
			p := Pod{UID: types.UID(fmt.Sprint("last-", n)), Name: "team-a/last", Netns: l.free[0].Path()}
			must.NoError(t, l.a.Lease(t.Context(), p, of(l.block, types.UID(fmt.Sprint("last-", n)))))
		}
		for _, a := range l.a.Addresses() {
			got[a.Address] = true
		}
		test.Eq(t, l.block.Size(), uint64(len(got)), test.Sprintf("%d addresses can be given in the end", len(got)))
	}
}
