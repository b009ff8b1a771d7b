package watch_test

import (
	"context"
	"log"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// A program that keeps the picture of its host right: it looks at what the kernel
// names, and twice a minute at what raises no event.
func Example() {
	ctx := context.Background()
	scanner := rdma.NewScanner(sysfs.DirFS("/sys"))
	watcher := watch.Start(ctx, watch.Config{Report: func(err error) { log.Print(err) }})
	poll := time.NewTicker(30 * time.Second)
	var last *rdma.Snapshot
	for {
		var changes rdma.Changes
		select {
		case <-ctx.Done():
			return
		case signal := <-watcher.Signals():
			changes = signal.Changes
		case <-poll.C:
			changes = scanner.Poll()
		}
		snap, err := scanner.Update(changes)
		if err != nil {
			log.Print(err)
			continue
		}
		watcher.Follow(snap)
		if d := rdma.Compare(last, snap); !d.Empty() {
			log.Printf("after %s: HCAs %v differ", changes, d.HCAs)
		}
		last = snap
	}
}
