package claims

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// restoreInterval is the interval of comparing specs with records without an event.
const restoreInterval = 5 * time.Minute

// Start starts to watch the CDI directory, and restores all specs. It must run before the kubelet is served.
func (c *Claims) Start(ctx context.Context) (err error) {
	if c.watcher, err = watchDir(c.cfg.CDIDir); err != nil {
		return err
	}
	if err := c.Restore(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Some CDI specs are not restored")
	}
	return nil
}

// Close ends the watch of Start.
func (c *Claims) Close() { c.watcher.Close() }

// WatchSpecs restores specs of claims that somebody else removes, until ctx ends. The kubelet would not ask for them
// again, and the next container of the pod would fail to start.
func (c *Claims) WatchSpecs(ctx context.Context) {
	logger := klog.FromContext(ctx)
	ticker := time.NewTicker(atomicfile.Stale) // at the start, temporary files of a killed driver may be too young
	defer ticker.Stop()
	var failed loop.Errors
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case event := <-c.watcher.Events:
			if !event.Has(fsnotify.Remove) && !event.Has(fsnotify.Rename) {
				continue
			}
			if event.Name == c.cfg.CDIDir {
				// In a pod the directory is a mount, which still leads to the removed directory. Only a restarted
				// container gets the new one.
				c.cfg.Fail(fmt.Errorf("the CDI directory %q was removed or replaced: restarting to use the new one", c.cfg.CDIDir))
				return
			}
			err = c.specRemoved(ctx, filepath.Base(event.Name))
		case err = <-c.watcher.Errors: // an overflow lost events
			logger.Error(err, "CDI directory not fully watched, comparing all specs")
			err = c.Restore(ctx)
		case <-ticker.C:
			ticker.Reset(restoreInterval)
			if err = c.Restore(ctx); !failed.IsNew("specs", err) {
				continue
			}
		}
		if err != nil {
			logger.Error(err, "Some CDI specs are not restored")
		}
	}
}

// watchDir starts to watch the CDI directory. It creates the directory if it is missing.
func watchDir(dir string) (*fsnotify.Watcher, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make CDI directory: %w", err)
	}
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		if err = watcher.Add(dir); err != nil {
			watcher.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("watch CDI directory %q: %w", dir, err)
	}
	return watcher, nil
}

// specRemoved restores the spec of a file name if its claim is still prepared.
func (c *Claims) specRemoved(ctx context.Context, file string) error {
	base, ok := strings.CutSuffix(file, "."+string(cdi.JSON))
	uid, ours := strings.CutPrefix(base, specName("")+"_")
	if !ok || !ours {
		return nil
	}
	p, err := c.cfg.Store.Get(types.UID(uid))
	if p == nil || err != nil {
		return err
	}
	return c.restoreClaim(ctx, p.UID)
}
