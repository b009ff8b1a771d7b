package claimstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// Metadata is the device metadata of claims: the files that containers read. Its directory has a
// directory for each claim, named by UID.
type Metadata struct{ Dir string }

// Metadata returns the device metadata of the store's claims.
func (s *Store) Metadata() Metadata { return Metadata{filepath.Join(s.dir, "metadata")} }

// Write writes a file for the containers of a claim, unless it is already equal. A
// running container keeps the old file.
func (m Metadata) Write(uid types.UID, name string, data []byte) error {
	dir := filepath.Join(m.Dir, string(uid))
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		_, err = atomicfile.Write(filepath.Join(dir, name), data, atomicfile.Options{Mode: 0o644})
	}
	if err != nil {
		return fmt.Errorf("write device metadata of claim %s: %w", uid, err)
	}
	return nil
}

// Remove removes the files of an ended claim.
func (m Metadata) Remove(uid types.UID) error {
	if err := os.RemoveAll(filepath.Join(m.Dir, string(uid))); err != nil {
		return fmt.Errorf("remove device metadata of claim %s: %w", uid, err)
	}
	return nil
}

// Sweep removes what killed drivers left: temporary files, and metadata of claims without a record (a driver writes the
// record of a claim first). It keeps young temporary files, which another driver may be writing during a rolling
// update, and the metadata of an unreadable record. It does not read the records of the given plans again.
func (s *Store) Sweep(prepared []*plan.Plan) error {
	return errors.Join(atomicfile.Sweep(s.claims(), atomicfile.Stale), s.sweepMetadata(prepared))
}

func (s *Store) sweepMetadata(prepared []*plan.Plan) error {
	files := s.Metadata()
	entries, err := os.ReadDir(files.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list device metadata: %w", err)
	}
	known := sets.New[types.UID]()
	for _, p := range prepared {
		known.Insert(p.UID)
	}
	var errs []error
	for _, e := range entries {
		uid := types.UID(e.Name())
		if known.Has(uid) {
			continue
		}
		if p, err := s.Get(uid); p == nil && err == nil {
			errs = append(errs, files.Remove(uid))
		}
	}
	return errors.Join(errs...)
}
