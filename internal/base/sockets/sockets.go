// Package sockets removes unix sockets without a listening process.
//
// A killed process leaves its sockets behind. If their names are unique to the process, for example because they
// contain the UID of a pod, no later process reuses them. A program that connects to all sockets of a directory then
// retries forever.
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

// Sweep removes the sockets that match one of the patterns of [filepath.Match], are older than age, and refuse a
// connection. It is idempotent. It keeps younger sockets, because a process may be about to listen on them. It returns
// the removed sockets, even with an error.
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

// isDead reports whether no process listens on a socket. A listening process that is too busy to accept does not refuse
// a connection.
func isDead(path string) bool {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
