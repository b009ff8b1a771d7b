package node

import (
	"context"
	"errors"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// settleStep is the first wait for a host in the middle of a change.
const settleStep = 50 * time.Millisecond

// UnsettledError means that a step failed and may succeed after the host has finished a change: the kernel may be
// moving a device or reloading its driver.
type UnsettledError struct{ error }

// Unsettled marks an error as an UnsettledError.
func Unsettled(err error) error { return &UnsettledError{err} }

// Unwrap returns the marked error.
func (e *UnsettledError) Unwrap() error { return e.error }

// Settle calls try. If try returns an UnsettledError, Settle reads the host and calls try again: at once the first
// time, and then after growing waits until a time. It returns the last error. Settle holds no lock while it waits, so
// try itself must take its locks, and the Host after them.
func (n *Node) Settle(ctx context.Context, until time.Time, try func() error) error {
	for backoff, again := loop.NewBackoff(settleStep, time.Second), false; ; again = true {
		err := try()
		if _, ok := errors.AsType[*UnsettledError](err); !ok {
			return err
		}
		if again && (time.Now().After(until) || !loop.Sleep(ctx, backoff.Next())) {
			return err
		}
		if err := n.Rescan(); err != nil {
			return err
		}
	}
}
