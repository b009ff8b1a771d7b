package watch

import (
	"context"
	"errors"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// rdmaSource is the socket of RDMA notifications. It is open only while there are HCAs. It is closed as soon as one
// disappears, until the next snapshot contains others. An open socket holds the module ib_core, so unloading the host's
// RDMA stack would fail. Opening the socket loads the module even on a host without RDMA.
type rdmaSource struct {
	close  atomic.Pointer[context.CancelFunc] // closes the socket that is open, or about to be
	wanted loop.Signal                        // set when the socket is to be opened
}

// want opens or closes the socket. It is safe for concurrent use.
func (s *rdmaSource) want(open bool) {
	if !open {
		s.release()
		return
	}
	s.wanted.Set()
}

// release closes the socket, and cancels a pending request to open it.
func (s *rdmaSource) release() {
	select {
	case <-s.wanted:
	default:
	}
	if end := s.close.Load(); end != nil {
		(*end)()
	}
}

// receiveRDMA passes on RDMA notifications while there are HCAs, until ctx ends. While the socket is closed it loses no
// information, because the uevents of HCAs report the same changes. It reports no error if the kernel is older than the
// notifications, or refuses them to this process.
func (w *Watcher) receiveRDMA(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.rdma.wanted:
		}
		untilRelease, end := context.WithCancel(ctx)
		w.rdma.close.Store(&end)
		source, err := w.RDMA()
		if err == nil {
			err = w.read(untilRelease, source, rdmaChanges)
		}
		end()
		isAbsent := errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL)
		if ctx.Err() == nil && !isAbsent && !errors.Is(err, os.ErrClosed) {
			w.Report(err)
		}
	}
}
