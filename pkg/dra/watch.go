package dra

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

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// restoreInterval is how often specs are compared with records without a reason.
const restoreInterval = 5 * time.Minute

// watchSpecs restores claim specs that someone removes, until ctx ends. The
// kubelet would not ask for them again, and the next container of the pod that
// starts would fail.
func (d *Driver) watchSpecs(ctx context.Context, watcher *fsnotify.Watcher) {
	logger := klog.FromContext(ctx)
	ticker := time.NewTicker(restoreInterval)
	defer ticker.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case event, ok := <-watcher.Events:
			if !ok {
				return
			}
			if !event.Has(fsnotify.Remove) && !event.Has(fsnotify.Rename) {
				continue
			}
			if event.Name == d.cfg.CDIDir {
				// In a pod the directory is a mount, which now leads to a removed one:
				// only a new pod gets the new directory.
				d.fail(fmt.Errorf("the CDI directory %q was removed or replaced: restarting to use the new one", d.cfg.CDIDir))
				return
			}
			err = d.specRemoved(ctx, filepath.Base(event.Name))
		case err = <-watcher.Errors: // an overflow lost events
			logger.Error(err, "CDI directory not fully watched, comparing all specs")
			err = d.restore(ctx)
		case <-ticker.C:
			err = d.restore(ctx)
		}
		if err != nil {
			logger.Error(err, "Some CDI specs are not restored")
		}
	}
}

// watchDir starts to watch the CDI directory, which it makes if it is missing.
func watchDir(dir string) (*fsnotify.Watcher, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make CDI directory: %w", err)
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch CDI directory %q: %w", dir, err)
	}
	if err := watcher.Add(dir); err != nil {
		watcher.Close()
		return nil, fmt.Errorf("watch CDI directory %q: %w", dir, err)
	}
	return watcher, nil
}

// specRemoved restores the spec of that file name if its claim is still prepared.
func (d *Driver) specRemoved(ctx context.Context, file string) error {
	base, ok := strings.CutSuffix(file, "."+string(cdi.JSON))
	uid, ours := strings.CutPrefix(base, specName("")+"_")
	if !ok || !ours {
		return nil
	}
	p, err := d.claims.Get(types.UID(uid))
	if p == nil || err != nil {
		return err
	}
	return d.restoreClaim(ctx, p.UID)
}
