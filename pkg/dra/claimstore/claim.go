package claimstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// Claim takes the HCAs of a plan for its claim and remembers the plan. It
// fails if another claim of this boot has one of them in a way that excludes
// sharing, by whichever device: alone, as a share, as a member of a group, or as a VF or
// SF of its card, of which it takes the lock as well.
// Taking them again is no error. The HCAs are locked in the order of
// their names, from before the check until the record is written, so of two
// claims on one HCA exactly one wins, in whichever processes they are.
func (s *Store) Claim(ctx context.Context, p *plan.Plan) error {
	for _, name := range append(p.Locks(), string(p.UID)) {
		if filepath.Base(name) != name || name == "." || name == ".." {
			return fmt.Errorf("claim %s: the name or UID %q is not usable as a file name", p.Claim(), name)
		}
	}
	var held []*deviceLock
	defer func() {
		for _, l := range held {
			l.release()
		}
	}()
	for _, name := range p.Locks() {
		l, err := s.lock(ctx, name)
		if err != nil {
			return fmt.Errorf("claim %s: %w", p.Claim(), err)
		}
		held = append(held, l)
	}
	for _, l := range held {
		if err := s.admit(p, l); err != nil {
			return fmt.Errorf("claim %s: %w", p.Claim(), err)
		}
	}
	return s.put(p)
}

// admit checks a plan against the other holders of an HCA and adds its claim
// to them. It drops names that no record backs.
func (s *Store) admit(p *plan.Plan, l *deviceLock) error {
	holders, err := l.holders()
	if err != nil {
		return err
	}
	for _, uid := range holders {
		if uid == p.UID {
			continue
		}
		other, err := s.Get(uid)
		if err != nil {
			return fmt.Errorf("device %s may be in use: %w", l.name, err)
		}
		if other == nil || !slices.Contains(other.Locks(), l.name) {
			if err := l.drop(uid); err != nil {
				return err
			}
			continue
		}
		if err := p.Overlap(other); err != nil {
			return err
		}
	}
	return l.add(p.UID)
}

// deviceLock is the locked directory of an HCA.
type deviceLock struct {
	name string
	dir  *os.File
}

// The waits between two tries for a lock that another process holds. It is held
// for the time of a few small file operations.
const (
	lockWaitMin = 500 * time.Microsecond
	lockWaitMax = 20 * time.Millisecond
)

// lock takes the lock of an HCA, waiting until ctx ends. flock(2) belongs to
// the open directory, so it also keeps out other goroutines of this process, and
// the kernel drops it when a process dies.
func (s *Store) lock(ctx context.Context, name string) (*deviceLock, error) {
	dir, err := openDir(filepath.Join(s.devices(), name))
	if err != nil {
		return nil, fmt.Errorf("lock device %s: %w", name, err)
	}
	for wait := lockWaitMin; ; wait = min(2*wait, lockWaitMax) {
		err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return &deviceLock{name, dir}, nil
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EWOULDBLOCK) {
			select {
			case <-time.After(wait):
				continue
			case <-ctx.Done():
				err = fmt.Errorf("another claim is being prepared on it: %w", ctx.Err())
			}
		}
		return nil, errors.Join(fmt.Errorf("lock device %s: %w", name, err), dir.Close())
	}
}

// openDir opens a directory, and makes it first if it is missing.
func openDir(path string) (*os.File, error) {
	dir, err := os.Open(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	if err := os.Mkdir(path, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.Open(path)
}

// release drops the lock; closing the directory does.
func (l *deviceLock) release() { _ = l.dir.Close() }

func (l *deviceLock) holders() ([]types.UID, error) {
	names, err := l.dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("read holders of device %s: %w", l.name, err)
	}
	uids := make([]types.UID, len(names))
	for i, name := range names {
		uids[i] = types.UID(name)
	}
	return uids, nil
}

func (l *deviceLock) add(uid types.UID) error {
	f, err := os.OpenFile(filepath.Join(l.dir.Name(), string(uid)), os.O_WRONLY|os.O_CREATE, 0o640)
	if err != nil {
		return fmt.Errorf("add claim %s to device %s: %w", uid, l.name, err)
	}
	return f.Close()
}

func (l *deviceLock) drop(uid types.UID) error {
	if err := os.Remove(filepath.Join(l.dir.Name(), string(uid))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop ended claim %s from device %s: %w", uid, l.name, err)
	}
	return nil
}
