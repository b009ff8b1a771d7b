package node

import (
	"context"
	"errors"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/wake"
)

// settleStep is the first wait for a host in the middle of a change. Each wait is twice the one before.
const settleStep = 50 * time.Millisecond

// UnsettledError means that a step failed and may succeed after the host has finished a change: the kernel may be
// moving a device or reloading its driver.
type UnsettledError struct{ error }

// Unsettled marks an error as an UnsettledError.
func Unsettled(err error) error { return &UnsettledError{err} }

// Unwrap returns the marked error.
func (e *UnsettledError) Unwrap() error { return e.error }

// Settle calls try with the host, and returns its last error. While the error is an UnsettledError, Settle reads the
// host again and calls try with it: once without a wait, and then after growing waits until the given time. While
// Settle waits, its caller and try must hold no lock that a change of the host needs.
func (n *Node) Settle(ctx context.Context, until time.Time, try func(*Host) error) error {
	host := n.Host()
	for wait := time.Duration(0); ; wait = max(settleStep, 2*wait) {
		err := try(host)
		if unsettled := (*UnsettledError)(nil); err == nil || !errors.As(err, &unsettled) {
			return err
		}
		if wait > 0 && (time.Now().After(until) || !wake.Sleep(ctx, wait)) {
			return err
		}
		if host, err = n.Rescan(); err != nil {
			return err
		}
	}
}
