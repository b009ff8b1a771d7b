// Package sockets removes unix sockets that nobody answers on.
//
// A process that is killed leaves its sockets behind. Where their names are its own, as
// those of a pod are that carry the pod's UID, no later process takes them over, and
// whoever connects to all sockets of a directory tries for ever.
package sockets

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Sweep removes the sockets that match one of the patterns of [filepath.Match], are older
// than age, and refuse a connection. A younger one may be about to be listened on. It returns
// what it removed, also with an error.
func Sweep(age time.Duration, patterns ...string) (removed []string, err error) {
	var errs []error
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return removed, fmt.Errorf("sweep sockets %q: %w", pattern, err)
		}
		for _, path := range paths {
			info, err := os.Lstat(path)
			if err != nil || info.Mode().Type() != fs.ModeSocket || time.Since(info.ModTime()) < age || !isDead(path) {
				continue
			}
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove the socket of a process that is gone: %w", err))
				continue
			}
			removed = append(removed, path)
		}
	}
	return removed, errors.Join(errs...)
}

// isDead reports whether nobody listens on a socket. Whoever listens, and is too busy to
// accept, does not refuse.
func isDead(path string) bool {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
