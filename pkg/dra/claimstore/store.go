// Package claimstore keeps the state of prepared claims in files. Two processes of one
// node may use them at the same time (a rolling update).
//
// # Records
//
// A claim has one record, claims/<UID>.json, with its plan and the boot in which it was
// made. The kubelet does not call NodePrepareResources again within a boot, so the
// driver rebuilds a lost CDI spec from the record. It replaces records by rename and
// does not sync them: a power loss ends the boot, which makes every record invalid, and
// after a boot the kubelet calls again.
//
// # Locks of claims
//
// claims.lock has a byte for each claim, by the hash of its UID. A process that prepares, restores or ends a claim
// locks the byte, which keeps all others from that claim (docs/adr/0028).
//
// # Devices
//
// The directory devices/<name>/ is the lock of an HCA (flock), for all of the HCA's devices in the pool. It has one
// empty file for each claim that may use the HCA, named by UID. A suffix marks claims that share the HCA. These
// never exclude each other, so they need not read each other's records.
//
// A claim makes its file before its record, so the directory names every holder. A name without a record is from a
// crash or an ended claim, and has no effect. So a check finds every claim whenever a process died, no file is ever
// incomplete, and the cost of a check does not grow with the number of claims on the node (docs/adr/0002). A process
// restores names that somebody removed by hand, because it knows the records that it has read. It reads all records
// when it starts (Rebuild).
package claimstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// formatVersion is the version of the record format. A reader rejects a newer one, as after a downgrade of the
// driver. A new field needs no new version if readers may ignore it.
const formatVersion = 1

// record is the content of a record file.
type record struct {
	Version int       `json:"version"`
	BootID  string    `json:"bootID"`
	Plan    plan.Plan `json:"claim"`

	size int // of the file
}

// Store is a directory of records and device locks.
type Store struct {
	dir      string
	boot     Boot
	cache    cache
	locks    claimLocks
	devices  devices
	holdings holdings
}

func newStore(dir string, boot Boot) *Store {
	return &Store{
		dir: dir, boot: boot, locks: claimLocks{path: filepath.Join(dir, "claims.lock")},
		devices: devices{dir: filepath.Join(dir, "devices")},
	}
}

// Open makes the directories of a store below dir. The store is for one boot: records of
// another boot count as absent.
func Open(dir string, boot Boot) (*Store, error) {
	s := newStore(dir, boot)
	for _, d := range []string{s.claims(), s.devices.dir} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			return nil, fmt.Errorf("open claim store: %w", err)
		}
	}
	return s, nil
}

func (s *Store) claims() string { return filepath.Join(s.dir, "claims") }

// RecordPath returns the path of a claim's record.
func (s *Store) RecordPath(uid types.UID) string {
	return filepath.Join(s.claims(), string(uid)+".json")
}

// Get returns the plan of a claim, nil if there is none of this boot. Callers share the plan and must
// not change it.
func (s *Store) Get(uid types.UID) (*plan.Plan, error) {
	path := s.RecordPath(uid)
	r, err := s.cache.read(uid, path)
	if err != nil {
		return nil, fmt.Errorf("read record of claim %s from %q: %w", uid, path, err)
	}
	if r == nil || r.BootID != s.boot.ID {
		s.holdings.drop(uid)
		return nil, nil
	}
	if r.Version > formatVersion || r.Plan.UID != uid {
		return nil, fmt.Errorf("read record of claim %s from %q: version %d of claim %q: %w",
			uid, path, r.Version, r.Plan.UID, errForeign)
	}
	s.holdings.set(&r.Plan, r.size)
	return &r.Plan, nil
}

// errForeign is the error of a valid record of this boot that the driver did not write.
var errForeign = errors.New("it was written by a newer driver or by something else; " +
	"drain the node before going back to this version")

// List returns the plans of all claims prepared in this boot. The error joins the errors of
// unreadable records.
func (s *Store) List() ([]*plan.Plan, error) {
	uids, err := s.uids()
	if err != nil {
		return nil, err
	}
	var plans []*plan.Plan
	var errs []error
	for _, uid := range uids {
		p, err := s.Get(uid)
		if err != nil {
			errs = append(errs, err)
		} else if p != nil {
			plans = append(plans, p)
		}
	}
	return plans, errors.Join(errs...)
}

func (s *Store) uids() ([]types.UID, error) {
	entries, err := os.ReadDir(s.claims())
	if err != nil {
		return nil, fmt.Errorf("list claim records: %w", err)
	}
	var uids []types.UID
	for _, e := range entries {
		if uid, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			uids = append(uids, types.UID(uid))
		}
	}
	return uids, nil
}

// replace replaces the record of a claim. Remove needs no locks, so replace writes the new record only if
// there is an old one.
func (s *Store) replace(p *plan.Plan) error {
	data, err := s.encode(p)
	if err == nil {
		err = s.write(p, data, atomicfile.Options{Mode: 0o640, Existing: true})
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the claim has ended
	}
	return err
}

// encode makes the record of a plan, whose size is bounded.
func (s *Store) encode(p *plan.Plan) ([]byte, error) {
	data, err := json.Marshal(record{Version: formatVersion, BootID: s.boot.ID, Plan: *p})
	if err != nil {
		return nil, fmt.Errorf("encode record of claim %s: %w", p.UID, err)
	}
	return data, p.CheckSize("record", len(data), plan.MaxRecord)
}

func (s *Store) write(p *plan.Plan, data []byte, opt atomicfile.Options) error {
	if _, err := atomicfile.Write(s.RecordPath(p.UID), data, opt); err != nil {
		return fmt.Errorf("write record of claim %s: %w", p.UID, err)
	}
	s.holdings.set(p, len(data))
	return nil
}

// Remove removes the record of a claim. It succeeds for an unknown claim. The devices
// keep the claim's name until their next claim drops it.
func (s *Store) Remove(uid types.UID) error {
	if err := os.Remove(s.RecordPath(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove record of claim %s: %w", uid, err)
	}
	s.cache.records.Delete(uid)
	s.holdings.drop(uid)
	return nil
}

// Void removes the records of earlier boots. It also removes unreadable records that are older
// than this boot, as after a power loss. It uses the clock only for unreadable records, because
// a clock that was set after the boot makes files written before that look older than they are.
// It returns the claims of the removed records.
func (s *Store) Void() ([]types.UID, error) {
	uids, err := s.uids()
	if err != nil {
		return nil, err
	}
	var voided []types.UID
	var errs []error
	for _, uid := range uids {
		p, err := s.Get(uid)
		if p != nil || errors.Is(err, errForeign) || err != nil && !s.olderThanBoot(uid) {
			continue
		}
		if err := s.Remove(uid); err != nil {
			errs = append(errs, err)
			continue
		}
		voided = append(voided, uid)
	}
	return voided, errors.Join(errs...)
}

func (s *Store) olderThanBoot(uid types.UID) bool {
	info, err := os.Stat(s.RecordPath(uid))
	return err == nil && info.ModTime().Before(s.boot.Time)
}

// bootIDFile holds a random number that the kernel makes at each boot. A container reads the
// node's number too.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// Boot identifies a boot of the node.
type Boot struct {
	ID   string    // /proc/sys/kernel/random/boot_id
	Time time.Time // of the boot
}

// ReadBoot returns the current boot.
func ReadBoot() (Boot, error) {
	id, err := os.ReadFile(bootIDFile)
	if err != nil {
		return Boot{}, fmt.Errorf("read the boot ID: %w", err)
	}
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return Boot{}, fmt.Errorf("read the time since boot: %w", err)
	}
	return Boot{ID: strings.TrimSpace(string(id)), Time: time.Now().Add(-time.Duration(up.Nano()))}, nil
}
