package attach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/flock"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
)

// recordVersion is the version of the records. A reader refuses records of a newer version.
const recordVersion = 1

// Record describes one interface of one pod, before and after the driver attaches it.
type Record struct {
	Version   int         `json:"version"`
	BootID    string      `json:"bootID"`
	Claim     types.UID   `json:"claim"`
	ClaimName string      `json:"claimName"`
	Device    string      `json:"device"`
	Pod       Pod         `json:"pod"`
	Want      podnet.Want `json:"want"` // mode, name and alias, which are needed to undo it
	// Original has no name until the driver is about to change the interface.
	Original podnet.Original `json:"original"`
	// Addresses are the addresses that the claim names.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// Lease is the request to the CNI plugin, nil for none. Leased, LeasedGateways and LeasedRoutes are the plugin's
	// answer.
	Lease          *podnet.Lease  `json:"lease,omitempty"`
	Leased         []netip.Prefix `json:"given,omitempty"`
	LeasedGateways []netip.Addr   `json:"givenGateways,omitempty"`
	LeasedRoutes   []podnet.Route `json:"givenRoutes,omitempty"`
	// State is the state of the interface in the pod, nil before it is attached.
	State *podnet.State `json:"state,omitempty"`
	// Detached means that the interface is on the host again, and only the lease must still be released.
	Detached bool `json:"returned,omitempty"`
}

// newRecord returns a new record, without the state of the host's interface.
func newRecord(bootID string, pod Pod, i Interface) *Record {
	n := i.Device.Network
	r := &Record{
		BootID: bootID, Claim: i.Claim.UID, ClaimName: i.Claim.Claim(), Device: i.Device.Device, Pod: pod,
		Want: podnet.Want{
			Mode: n.Mode, VLAN: i.Device.VLAN, Name: n.Interface, Alias: i.Claim.InterfaceAlias(i.Device),
		},
	}
	if n.IPAM != "" {
		r.Lease = &podnet.Lease{
			Network: n.IPAM, Config: n.IPAMConfig, Container: r.ID(), Netns: pod.Netns, Interface: n.Interface,
		}
	}
	return r
}

// ID returns the name of the record. It is also the container ID for CNI plugins.
func (r *Record) ID() string {
	return strings.Join([]string{string(r.Claim), r.Device, string(r.Pod.UID)}, ".")
}

// IsOf reports whether a record is that of an interface, in any pod.
func (r *Record) IsOf(i Interface) bool {
	return r.Claim == i.Claim.UID && r.Device == i.Device.Device
}

// begun reports whether the interface may have been changed. Before, the driver has only called the plugin.
func (r *Record) begun() bool { return r.Original.Name != "" }

func (r *Record) thisBoot(id string) bool { return r.BootID == id }

// store is a directory of records. It caches nothing, because two drivers use the directory during a rolling update.
type store struct{ dir, bootID string }

func openStore(dir, bootID string) (store, error) {
	s := store{dir, bootID}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return s, fmt.Errorf("open records of network interfaces: %w", err)
	}
	return s, nil
}

// errEmpty is the error of an empty record: the node crashed before the content was on the disk. Such a record has no
// lease and is that of an earlier boot. A reboot undoes all changes of interfaces, so the record counts as missing.
var errEmpty = fmt.Errorf("it is empty: %w", fs.ErrNotExist)

func readRecord(path string) (r Record, err error) {
	data, err := os.ReadFile(path)
	if err == nil && len(data) == 0 {
		err = errEmpty
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	switch {
	case err != nil:
	case r.Version < 1 || r.Version > recordVersion:
		err = fmt.Errorf("version %d is not known to this driver", r.Version)
	case filepath.Base(path) != r.ID()+".json":
		err = fmt.Errorf("it is that of %s", r.ID())
	}
	return r, err
}

func (s *store) path(r *Record) string { return filepath.Join(s.dir, r.ID()+".json") }

// put writes a record. A record of a call to a plugin must survive a crash of the node, so it is synced: nothing else
// knows of the address. The plugin's answer need not survive.
func (s *store) put(r *Record) error {
	r.Version = recordVersion
	data, err := json.Marshal(r)
	if err == nil {
		sync := r.Lease != nil && len(r.Leased) == 0
		_, err = atomicfile.Write(s.path(r), data, atomicfile.Options{Mode: 0o640, Sync: sync})
	}
	if err != nil {
		return fmt.Errorf("write record of network interface %q: %w", r.Original.Name, err)
	}
	return nil
}

func (s *store) remove(r *Record) error {
	if err := os.Remove(s.path(r)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove record of network interface %q: %w", r.Original.Name, err)
	}
	return nil
}

// current returns the record of a sandbox as it is now, nil if it was removed or is that of another sandbox.
func (s *store) current(r *Record) (*Record, error) {
	now, err := readRecord(s.path(r))
	if errors.Is(err, fs.ErrNotExist) || err == nil && now.Pod != r.Pod {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(s.path(r), err)
	}
	return &now, nil
}

// every is the file name pattern of all records.
const every = "*.json"

// errUnlisted means that no record is known. That is not the same as no record.
var errUnlisted = errors.New("list the records of network interfaces")

// all returns the matching records whose file names fit a pattern, in the order of the names. It also returns an error
// that joins the errors of unreadable records. If it cannot list the directory, the error is errUnlisted.
func (s *store) all(pattern string, match func(*Record) bool) (out []Record, err error) {
	entries, err := os.ReadDir(s.dir) // Glob returns no such error
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnlisted, err)
	}
	var errs []error
	for _, e := range entries {
		if fits, err := filepath.Match(pattern, e.Name()); !fits {
			errs = append(errs, err)
			continue
		}
		path := filepath.Join(s.dir, e.Name())
		r, err := readRecord(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was removed just now
		case err != nil:
			errs = append(errs, unreadable(path, err))
		case match(&r):
			out = append(out, r)
		}
	}
	return out, errors.Join(errs...)
}

func unreadable(path string, err error) error {
	return fmt.Errorf("read record of a network interface from %q: %w; look whether the interface is back on the host, and remove the file", path, err)
}

// recordsOf returns the records of a claim's device.
func (s *store) recordsOf(claim types.UID, device string) ([]Record, error) {
	return s.all(string(claim)+"."+device+"."+every, func(r *Record) bool { return r.Claim == claim && r.Device == device })
}

// moved returns the records of pods that have the interface of an HCA itself, for any claim.
func (s *store) moved(hca string) ([]Record, error) {
	return s.all("*."+hca+"."+every, func(r *Record) bool {
		return r.Device == hca && r.Want.Mode == podnet.Move && !r.Detached
	})
}

// There are two locks, which exclude other callers and other processes. The lock of a record is held while the driver
// works in the namespace of its pod, or calls a CNI plugin for it. Either may take long, and only this pod waits. Only
// the holder changes the record, and a caller holds one such lock at a time. The lock of the directory is held while
// the driver looks at all records and writes one of them. So an interface, and an address, is in one pod only. It is
// never held for work in the namespace of a pod, because all pods of the node wait for it. Lock order: the record
// before the directory.

// lock locks the directory against other processes and other callers in this one, until unlock.
func (s *store) lock(ctx context.Context) (unlock func(), err error) {
	dir, err := flock.Open(ctx, func() (*os.File, error) { return os.Open(s.dir) })
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("another driver uses the records of network interfaces in %q: %w", s.dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("lock records of network interfaces in %q: %w", s.dir, err)
	}
	return func() { dir.Close() }, nil
}

// lockSuffix ends the names of lock files, which exist while the lock of a record is held.
const lockSuffix = ".lock"

// lockRecord locks a record until unlock. The record need not exist.
func (s *store) lockRecord(ctx context.Context, r *Record) (unlock func(), err error) {
	path := s.path(r) + lockSuffix
	f, err := flock.Open(ctx, func() (*os.File, error) { return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640) })
	if err != nil {
		return nil, fmt.Errorf("lock record of network interface %q: the driver works in the pod, or asks a CNI plugin "+
			"for it: %w", path, err)
	}
	return func() { os.Remove(path); f.Close() }, nil
}

// sweepLocks removes the lock files of drivers that were killed. It leaves locks that are held.
func (s *store) sweepLocks() error {
	files, err := filepath.Glob(filepath.Join(s.dir, "*"+lockSuffix))
	errs := []error{err}
	for _, path := range files {
		f, err := flock.Open(flock.NoWait, func() (*os.File, error) { return os.OpenFile(path, os.O_RDWR, 0) })
		if err == nil {
			err = os.Remove(path)
			f.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, context.Canceled) {
			errs = append(errs, fmt.Errorf("remove lock of a record: %w", err))
		}
	}
	return errors.Join(errs...)
}
