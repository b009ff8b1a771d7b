// Package reports reads the hook's reports about containers, for the driver. The hook links package record alone.
package reports

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
)

// Take reads the reports in a directory and removes them. It calls keep before it removes a report; if keep fails,
// the report stays for the next call. Take also removes files that are not reports; the error names them. The result is
// valid even with an error.
func Take(dir string, keep func(record.Report) error) ([]record.Report, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the hook's reports: %w", err)
	}
	var found []record.Report
	var errs []error
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".json" {
			continue // a temporary file
		}
		r, err := take(filepath.Join(dir, e.Name()), keep)
		switch {
		case errors.Is(err, fs.ErrNotExist): // another reader has removed it
		case err != nil:
			errs = append(errs, fmt.Errorf("read the hook's report %q: %w", e.Name(), err))
		default:
			found = append(found, r)
		}
	}
	return found, errors.Join(errs...)
}

// maxReport bounds the size of a report, which has one message for each HCA.
const maxReport = 1 << 20

func take(path string, keep func(record.Report) error) (r record.Report, err error) {
	data, err := hostfs.ReadLocal(path, maxReport)
	switch {
	case errors.Is(err, hostfs.ErrNotRegular) || errors.Is(err, hostfs.ErrTooLarge):
		return r, errors.Join(err, os.Remove(path))
	case err != nil:
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, errors.Join(err, os.Remove(path))
	}
	if err := keep(r); err != nil {
		return r, err
	}
	return r, os.Remove(path)
}

// Pending reports whether a directory has a report about the claim with this UID.
func Pending(dir, claim string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("look for the hook's reports: %w", err)
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return filepath.Ext(e.Name()) == ".json" && slices.Contains(strings.Split(e.Name(), "."), claim)
	}), nil
}
