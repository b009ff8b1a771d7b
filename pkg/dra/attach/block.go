package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
)

// The addresses of the node's own blocks have no state besides the records: a record with an address is the
// assignment, and its removal ends it. The record is written before the address is used, under the lock of the
// directory, so a killed driver neither loses an address nor assigns one twice. It need not survive a crash of the
// node, because no pod does.

// fromBlock assigns an address of the node's block to a pod. It is idempotent.
func (l *leases) fromBlock(ctx context.Context, want *Record, b blocks.Block) error {
	release, err := l.store.lockRecord(ctx, want)
	if err != nil {
		return err
	}
	defer release()
	if ended(want.Pod.Netns) {
		return rdmanetns.ErrEnded
	}
	has, err := l.clearBlock(ctx, want)
	if has || err != nil {
		return err
	}
	unlock, err := l.store.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	address, err := l.next(want.Lease.Network, b)
	if err != nil {
		return fmt.Errorf("get an address of ipam %q: %w", want.Lease.Network, err)
	}
	want.Leased = []netip.Prefix{b.Prefix(address)}
	if b.Gateway.IsValid() {
		want.LeasedGateways = []netip.Addr{b.Gateway}
	}
	if err := l.store.put(want); err != nil {
		return err
	}
	return l.store.putLast(want.Lease.Network, address)
}

// clearBlock reports whether the pod has its address. It detaches what an earlier sandbox has of the interface. The
// caller holds the lock of the record.
func (l *leases) clearBlock(ctx context.Context, want *Record) (has bool, err error) {
	had, err := readRecord(l.store.path(want))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, unreadable(l.store.path(want), err)
	case had.Pod == want.Pod && had.thisBoot(l.store.bootID) && !had.Detached && len(had.Leased) > 0:
		return true, nil
	}
	if err := l.detacher.detach(ctx, &had, false); err != nil {
		return false, err
	}
	if had.Lease != nil && !had.ofBlock() {
		return false, fmt.Errorf("ipam %q has not taken back the address of an earlier sandbox of the pod; "+
			"the driver asks it again each minute", had.Lease.Network)
	}
	return false, l.store.remove(&had)
}

// ofBlock reports whether the address of a record is of the node's own block. Then only the record says who has it.
func (r *Record) ofBlock() bool {
	if r.Lease == nil {
		return false
	}
	_, own, _ := blocks.Read(r.Lease.Config)
	return own
}

// releaseAtPlugin releases an address at its plugin. An address of the node's own block ends with its record.
func (l *leases) releaseAtPlugin(ctx context.Context, r *Record) error {
	if r.ofBlock() {
		return nil
	}
	return l.ipam.Del(ctx, *r.Lease)
}

// next returns a free address of a block: the next one after the address that was assigned last, so that an address is
// not used again at once. The caller holds the lock.
func (l *leases) next(ipam string, b blocks.Block) (netip.Addr, error) {
	records, err := l.store.all(every, func(*Record) bool { return true })
	if err != nil { // such a record may have any address
		return netip.Addr{}, fmt.Errorf("find out which addresses are in use: %w", err)
	}
	used, err := l.host.IPs()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, r := range records {
		for _, address := range r.addresses(l.store.bootID) {
			used[address] = true
		}
	}
	address, ok := b.Next(l.store.last(ipam), func(a netip.Addr) bool { return used[a] })
	if !ok {
		return address, fmt.Errorf("all %d addresses of this node's block %s are in use%s: "+
			"delete pods, or give nodes larger blocks (perNode)", b.Size(), b.Block, users(records, b))
	}
	return address, nil
}

// maxUsers bounds the namespaces in an error.
const maxUsers = 5

// users says how many addresses of a block the pods of each namespace have.
func users(records []Record, b blocks.Block) string {
	count := map[string]int{}
	for _, r := range records {
		if r.inBlock(b) {
			namespace, _, _ := strings.Cut(r.Pod.Name, "/")
			count[namespace]++
		}
	}
	byCount := func(x, y string) int { return cmp.Or(count[y]-count[x], strings.Compare(x, y)) }
	var parts []string
	others := 0
	for i, namespace := range slices.SortedFunc(maps.Keys(count), byCount) {
		if i < maxUsers {
			parts = append(parts, fmt.Sprintf("%d by pods of namespace %s", count[namespace], namespace))
		} else {
			others += count[namespace]
		}
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("%d by pods of other namespaces", others))
	}
	if len(parts) == 0 {
		return ""
	}
	return ", " + strings.Join(parts, ", ")
}

// inBlock reports whether a record has an address of a block.
func (r *Record) inBlock(b blocks.Block) bool {
	return slices.ContainsFunc(r.Leased, func(p netip.Prefix) bool { return b.Block.Contains(p.Addr()) })
}

// Address is an address that a pod has from IPAM.
type Address struct {
	IPAM      string
	Address   netip.Addr
	Pod       string // namespace/name
	PodUID    types.UID
	Claim     string // namespace/name
	Device    string
	Interface string // in the pod
}

// Addresses returns the addresses that pods have from IPAM, sorted. It omits those of unreadable records, which Over
// reports.
func (a *Attacher) Addresses() (out []Address) {
	records, _ := a.store.all(every, func(r *Record) bool { return r.Lease != nil })
	for _, r := range records {
		for _, p := range r.Leased {
			out = append(out, Address{
				IPAM: r.Lease.Network, Address: p.Addr(), Pod: r.Pod.Name, PodUID: r.Pod.UID, Claim: r.ClaimName,
				Device: r.Device, Interface: r.Want.Name,
			})
		}
	}
	slices.SortFunc(out, func(x, y Address) int {
		return cmp.Or(strings.Compare(x.IPAM, y.IPAM), x.Address.Compare(y.Address))
	})
	return out
}

// lastSuffix ends the names of the files with the last assigned address of an IPAM.
const lastSuffix = ".last"

// last returns the address that was assigned last, invalid if that is not known. Without it the first free address is
// next, so a lost file costs nothing but the order.
func (s *store) last(ipam string) netip.Addr {
	data, err := os.ReadFile(filepath.Join(s.dir, ipam+lastSuffix))
	if err != nil {
		return netip.Addr{}
	}
	a, _ := netip.ParseAddr(string(data))
	return a
}

func (s *store) putLast(ipam string, a netip.Addr) error {
	path := filepath.Join(s.dir, ipam+lastSuffix)
	if _, err := atomicfile.Write(path, []byte(a.String()), atomicfile.Options{Mode: 0o640}); err != nil {
		return fmt.Errorf("write the last address of ipam %q: %w", ipam, err)
	}
	return nil
}
