// Package claimstore keeps what the driver must remember of prepared claims, in
// files that two processes of one node may use at once (a rolling update).
//
// # Records
//
// A claim has one record, claims/<UID>.json: its plan, and the boot it was made
// in. The kubelet does not call NodePrepareResources again within a boot, so the
// record is what a lost CDI spec is rebuilt from. It is replaced by rename and
// not synced: a power loss ends the boot, which voids every record, and after a
// boot the kubelet does call again.
//
// # Locks of claims
//
// claims.lock has a byte for each claim that somebody prepares, restores or ends, by the UID's hash: its lock keeps
// all others from that claim, also those of another process (docs/adr/0028).
//
// # Devices
//
// devices/<name>/ is the lock of an HCA (flock on the directory), whatever devices
// stand for it in the pool, and holds one
// empty file for each claim that may use it, named by UID, and marked where the claim
// shares the HCA: two such claims never exclude each other, and need not know of each
// other. A claim's file is made
// before its record is written, so the directory names every holder; a name
// without a record is left from a crash or an ended claim, and counts for
// nothing. So no claim is overlooked whatever moment a process dies at, nothing
// is ever half written, and the cost of a check does not grow with the number of
// claims on the node (docs/adr/0002). A name that somebody removes by hand is put back: a process knows the records that
// it has read, which are all when it starts.
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

	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// formatVersion is the version of the record format. A reader refuses a newer one, as after a way back to an older
// driver. Fields that a reader may overlook need no new version.
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
	dir   string
	boot  Boot
	turns turns
	cache cache
	locks claimLocks
	held  holdings
}

// Open makes the directories of a store below dir. It is for one boot: records of
// another boot count as absent.
func Open(dir string, boot Boot) (*Store, error) {
	s := &Store{dir: dir, boot: boot}
	s.locks.init()
	for _, d := range []string{s.claims(), s.devices()} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			return nil, fmt.Errorf("open claim store: %w", err)
		}
	}
	return s, atomicfile.Sweep(s.claims(), time.Minute)
}

func (s *Store) claims() string  { return filepath.Join(s.dir, "claims") }
func (s *Store) devices() string { return filepath.Join(s.dir, "devices") }

// RecordPath is the file with the record of a claim.
func (s *Store) RecordPath(uid types.UID) string {
	return filepath.Join(s.claims(), string(uid)+".json")
}

// Get returns the plan of a claim, nil if there is none of this boot. Others are given the
// same plan: nobody changes it.
func (s *Store) Get(uid types.UID) (*plan.Plan, error) {
	path := s.RecordPath(uid)
	r, err := s.cache.read(uid, path)
	if err != nil {
		return nil, fmt.Errorf("read record of claim %s from %q: %w", uid, path, err)
	}
	if r == nil || r.BootID != s.boot.ID {
		s.held.drop(uid)
		return nil, nil
	}
	if r.Version > formatVersion || r.Plan.UID != uid {
		return nil, fmt.Errorf("read record of claim %s from %q: version %d of claim %q: %w", uid, path, r.Version, r.Plan.UID, errForeign)
	}
	s.held.set(&r.Plan, r.size)
	return &r.Plan, nil
}

func decode(data []byte) (*record, error) {
	r := &record{}
	return r, json.Unmarshal(data, r)
}

// errForeign is what is wrong with a record of this boot that is whole, but not ours.
var errForeign = errors.New("it was written by a newer driver or by something else; drain the node before going back to this version")

// List returns the plans of all claims prepared in this boot, and an error that
// joins those of records that cannot be read.
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

// put writes the record of a plan. The caller holds the locks of its devices.
func (s *Store) put(p *plan.Plan, data []byte) error {
	return s.write(p, data, atomicfile.Options{Mode: 0o640})
}

// replace is put for a claim that has a record. Whoever removes that needs no locks, so the new one
// takes its place only if it is there.
func (s *Store) replace(p *plan.Plan) error {
	data, err := s.encode(p)
	if err == nil {
		err = s.write(p, data, atomicfile.Options{Mode: 0o640, Existing: true})
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has ended
	}
	return err
}

// encode makes the record of a plan, which has bounds.
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
	s.held.set(p, len(data))
	return nil
}

// Remove forgets a claim. That of an unknown one succeeds. Its devices
// keep the name until the next claim of the device drops it.
func (s *Store) Remove(uid types.UID) error {
	if err := os.Remove(s.RecordPath(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove record of claim %s: %w", uid, err)
	}
	s.cache.forget(uid)
	s.held.drop(uid)
	return nil
}

// Void removes the records that an earlier boot left: those that say so, and
// unreadable ones that are older than this boot, as a power loss leaves them. Clocks are
// asked only of what cannot be read at all: one that was set since the boot makes what
// was written before look older than it is. It returns the claims it forgot.
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
