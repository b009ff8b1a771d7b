package claimstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/flock"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// Claim takes the HCAs of a plan for its claim, and writes the claim's record. It fails if another claim of this boot
// holds one of them without sharing. The kind of device does not matter: the HCA itself, a share, a group with the HCA
// as a member, or a VF or SF of its card. A plan for a VF or SF takes the lock of its card too. Claim is idempotent.
//
// Claim locks the HCAs in the order of their names, from before the check until the record is written. So exactly one
// of two claims on one HCA succeeds, also in different processes.
func (s *Store) Claim(ctx context.Context, p *plan.Plan) error {
	names := []string{string(p.UID)}
	for _, l := range p.Locks() {
		names = append(names, l.HCA)
	}
	for _, name := range names {
		if err := checkName(name); err != nil {
			return fmt.Errorf("claim %s: %w", p.Claim(), err)
		}
	}
	data, err := s.encode(p)
	if err == nil {
		err = p.CheckNode(s.holdings.others(p.UID), p.Bytes+len(data))
	}
	if err != nil {
		return err
	}
	locks, err := s.devices.lockAll(ctx, p)
	defer locks.release()
	if err != nil {
		return err
	}
	for _, l := range locks {
		if err := s.admit(p, l); err != nil {
			return fmt.Errorf("claim %s: %w", p.Claim(), err)
		}
	}
	return s.write(p, data, atomicfile.Options{Mode: 0o640})
}

// checkName keeps the store's paths within its directory.
func checkName(name string) error {
	if filepath.Base(name) != name || name == "." || name == ".." {
		return fmt.Errorf("the name or UID %q is not usable as a file name", name)
	}
	return nil
}

// Update replaces the plan of a claim by the result of change, which must have the same devices. It does nothing for a
// claim without a record, even if the claim ends meanwhile. It serializes the updates of all processes.
func (s *Store) Update(ctx context.Context, uid types.UID, change func(*plan.Plan) *plan.Plan) error {
	p, err := s.Get(uid)
	if err != nil || p == nil || change(p) == p {
		return err
	}
	locks, err := s.devices.lockAll(ctx, p)
	defer locks.release()
	if err != nil {
		return err
	}
	if p, err = s.Get(uid); err != nil || p == nil {
		return err
	}
	return s.replace(change(p))
}

// Release removes the record of a claim if may agrees, and reports whether the record is gone. It calls may with the
// claim's HCAs locked, so nobody takes them or prepares the claim before the record is removed. After the record, and
// before it drops the locks, it calls rest to remove everything else of the claim.
func (s *Store) Release(
	ctx context.Context, uid types.UID, may func(*plan.Plan) bool, rest func() error,
) (released bool, err error) {
	p, err := s.Get(uid)
	if err != nil || p == nil {
		return p == nil, err
	}
	locks, err := s.devices.lockAll(ctx, p)
	defer locks.release()
	if err != nil {
		return false, err
	}
	now, err := s.Get(uid)
	switch {
	case err != nil || now == nil:
		return now == nil, err
	case !slices.Equal(now.Locks(), p.Locks()):
		return false, nil // it has other HCAs now, so it is in use
	case !may(now):
		return false, nil
	}
	if err := s.Remove(uid); err != nil {
		return false, err
	}
	return true, rest()
}

// deviceLocks are the locks of a plan's HCAs.
type deviceLocks []*deviceLock

func (all deviceLocks) release() {
	for _, l := range all {
		l.release()
	}
}

// devices is the directory with the directories of HCAs, which are their locks.
type devices struct {
	dir   string
	turns flock.Names // of HCAs, within this process
}

// lockAll takes the locks of a plan in order. After an error, it returns the locks that it has taken.
func (d *devices) lockAll(ctx context.Context, p *plan.Plan) (taken deviceLocks, err error) {
	for _, lock := range p.Locks() {
		l, err := d.lock(ctx, lock)
		if err != nil {
			return taken, fmt.Errorf("claim %s: %w", p.Claim(), err)
		}
		taken = append(taken, l)
	}
	return taken, nil
}

// admit checks a plan against the other holders of an HCA and adds its claim to the holders. It
// does not read the records of claims that share the HCA with it.
func (s *Store) admit(p *plan.Plan, l *deviceLock) error {
	holders, err := l.holders()
	if err == nil {
		holders, err = s.complete(l, holders)
	}
	if err != nil {
		return err
	}
	for _, h := range holders {
		if h.uid == p.UID {
			continue
		}
		if h.shared && l.Shared {
			if len(holders) > tidyAbove {
				err = s.dropEnded(l, h)
			}
		} else {
			err = s.checkHolder(p, l, h)
		}
		if err != nil {
			return err
		}
	}
	return l.add(holder{p.UID, l.Shared})
}

// tidyAbove is the number of holders above which admit drops those of ended claims. An
// HCA has up to 63 shares, or up to 127 VFs.
const tidyAbove = 256

// dropEnded drops a holder without a record.
func (s *Store) dropEnded(l *deviceLock, h holder) error {
	if _, err := os.Lstat(s.RecordPath(h.uid)); errors.Is(err, fs.ErrNotExist) {
		return l.drop(h)
	}
	return nil
}

// checkHolder checks a plan against another holder of an HCA. It drops a holder that ended, or has
// other HCAs now.
func (s *Store) checkHolder(p *plan.Plan, l *deviceLock, h holder) error {
	other, err := s.Get(h.uid)
	if err != nil {
		return fmt.Errorf("device %s may be in use: %w", l.HCA, err)
	}
	if other == nil || !slices.ContainsFunc(other.Locks(), func(o plan.Lock) bool { return o.HCA == l.HCA }) {
		return l.drop(h)
	}
	return p.Overlap(other)
}

// deviceLock is the locked directory of an HCA.
type deviceLock struct {
	plan.Lock
	dir    *os.File
	unlock func() // within this process
}

// lock takes the lock of an HCA, waiting until ctx ends: by name within this process, and that of the HCA's directory
// against other processes.
func (d *devices) lock(ctx context.Context, of plan.Lock) (*deviceLock, error) {
	unlock, err := d.turns.Lock(ctx, of.HCA)
	if err != nil {
		return nil, fmt.Errorf("lock device %s: another claim is being prepared on it: %w", of.HCA, err)
	}
	dir, err := flock.Open(ctx, func() (*os.File, error) { return openDir(filepath.Join(d.dir, of.HCA)) })
	if err != nil {
		unlock()
		if errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("another claim is being prepared on it: %w", err)
		}
		return nil, fmt.Errorf("lock device %s: %w", of.HCA, err)
	}
	return &deviceLock{Lock: of, dir: dir, unlock: unlock}, nil
}

// openDir opens a directory, and makes it first if it is missing.
func openDir(path string) (*os.File, error) {
	dir, err := atomicfile.OpenFile(path, unix.O_DIRECTORY, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, err
	}
	return atomicfile.OpenFile(path, unix.O_DIRECTORY, 0)
}

// release drops the lock by closing the directory.
func (l *deviceLock) release() {
	_ = l.dir.Close()
	l.unlock()
}

// holder is a file in the directory of an HCA, for a claim that holds the HCA.
type holder struct {
	uid    types.UID
	shared bool
}

// sharedSuffix marks the names of claims that share an HCA.
const sharedSuffix = ".shared"

func (h holder) name() string {
	if h.shared {
		return string(h.uid) + sharedSuffix
	}
	return string(h.uid)
}

func (l *deviceLock) holders() ([]holder, error) {
	names, err := l.dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("read holders of device %s: %w", l.HCA, err)
	}
	holders := make([]holder, len(names))
	for i, name := range names {
		uid, shared := strings.CutSuffix(name, sharedSuffix)
		holders[i] = holder{types.UID(uid), shared}
	}
	return holders, nil
}

func (l *deviceLock) add(h holder) error {
	f, err := atomicfile.OpenFile(filepath.Join(l.dir.Name(), h.name()), os.O_WRONLY|os.O_CREATE, 0o640)
	if err != nil {
		return fmt.Errorf("add claim %s to device %s: %w", h.uid, l.HCA, err)
	}
	return f.Close()
}

func (l *deviceLock) drop(h holder) error {
	if err := os.Remove(filepath.Join(l.dir.Name(), h.name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop ended claim %s from device %s: %w", h.uid, l.HCA, err)
	}
	return nil
}
