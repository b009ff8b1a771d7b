package attach

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/rdma-dev/dra-driver-rdma/internal/flock"
)

// lock keeps out other processes and other callers, until unlock.
func (s *store) lock(ctx context.Context) (unlock func(), err error) {
	dir, err := os.Open(s.dir)
	if err != nil {
		return nil, fmt.Errorf("lock records of network interfaces: %w", err)
	}
	if err := flock.Lock(ctx, dir); err != nil {
		dir.Close()
		if errors.Is(err, ctx.Err()) {
			return nil, fmt.Errorf("another driver has the records of network interfaces in %q: %w", s.dir, err)
		}
		return nil, fmt.Errorf("lock records of network interfaces in %q: %w", s.dir, err)
	}
	return func() { dir.Close() }, nil
}
