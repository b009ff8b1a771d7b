package offer

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

// ReadPolicy reads the configuration file of a site.
func ReadPolicy(path string) (*policy.Config, error) {
	data, err := yamlread.Config.Read(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return parsePolicy(path, data)
}

func parsePolicy(path string, data []byte) (*policy.Config, error) {
	c, err := policy.Parse(data)
	if err == nil {
		err = checkEdits(c)
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration %q: %w", path, err)
	}
	return c, nil
}

// checkEdits tries what every container would get: no claim could be prepared with
// an environment or mounts that do not fit in a CDI spec.
func checkEdits(c *policy.Config) error {
	site := siteOf(plan.Site{}, c)
	if len(site.Env)+len(site.Mounts) == 0 {
		return nil
	}
	_, err := cdi.NewSpec(cdi.KindClaim, []cdi.Device{{Name: "check", Env: site.Env, Mounts: site.Mounts}})
	return err
}

const (
	// policyInterval is how often the configuration file is looked at without an
	// event, since a watch may lose some.
	policyInterval = time.Minute
	// policySettle is how long the file's directory must be quiet: an editor that
	// writes a file in place leaves half of it for a moment, which may be valid.
	policySettle = 200 * time.Millisecond
)

// policyFile is the file that the policy in force came from, or a newer one that
// is not good.
type policyFile struct {
	path    string
	watcher *fsnotify.Watcher
	data    []byte // as read last
	fault   string // why it cannot be read, as said last
}

// watchPolicy starts to watch the directory of a file. A watch of the file itself is no use: a mounted ConfigMap is a
// chain of links, and an update replaces one link in the directory.
func watchPolicy(path string) (*policyFile, error) {
	if path == "" {
		return &policyFile{}, nil
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch configuration %q: %w", path, err)
	}
	if err := watcher.Add(filepath.Dir(path)); err != nil {
		watcher.Close()
		return nil, fmt.Errorf("watch configuration %q: %w", path, err)
	}
	return &policyFile{path: path, watcher: watcher}, nil
}

func (f *policyFile) close() {
	if f.watcher != nil {
		f.watcher.Close()
	}
}

// followPolicy keeps the policy in force in step with its file, until ctx ends.
func (o *Offer) followPolicy(ctx context.Context) {
	f := o.file
	if f.path == "" {
		return
	}
	settled := time.NewTimer(0) // it may have changed since it was read
	defer settled.Stop()
	ticker := time.NewTicker(policyInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.watcher.Events:
			settled.Reset(policySettle)
		case <-f.watcher.Errors: // an overflow lost events
			settled.Reset(policySettle)
		case <-settled.C:
			o.reloadPolicy(ctx, f)
		case <-ticker.C:
			o.reloadPolicy(ctx, f)
		}
	}
}

// reloadPolicy puts the file's policy in force. A file that is not good, or not
// there, changes nothing: no claim is given more, or loses its HCA, by a typing
// error.
func (o *Offer) reloadPolicy(ctx context.Context, f *policyFile) {
	data, err := yamlread.Config.Read(f.path)
	if err == nil && f.data != nil && bytes.Equal(data, f.data) && f.fault == "" {
		return
	}
	var c *policy.Config
	if err == nil {
		f.data = data
		c, err = parsePolicy(f.path, data)
	}
	logger := klog.FromContext(ctx)
	if err != nil {
		if err.Error() != f.fault {
			f.fault = err.Error()
			o.cfg.Report.Warn("ConfigurationNotUsed", f.path, err)
			logger.Error(err, "Configuration not used, the one before stays in force")
		}
		return
	}
	f.fault = ""
	o.policy.Store(c)
	o.cfg.Node.SetTimes(c.HealthTimes)
	o.changed.Set()
	logger.Info("Configuration in force", "file", f.path)
	o.cfg.Report.Note("ConfigurationInForce", f.path, "what is published follows it")
}

// siteOf returns what every claim of the node gets that is prepared now: the flags,
// and what the configuration says over them.
func siteOf(flags plan.Site, c *policy.Config) plan.Site {
	container := c.Container()
	edits := container.Edits()
	site := plan.Site{Memlock: flags.Memlock, Env: edits.Env, Mounts: edits.Mounts}
	// Parse has checked it.
	if size, err := hook.ParseSize(container.Memlock); err == nil {
		site.Memlock = v1alpha1.MemlockUnlimited
		if size != hook.Unlimited {
			site.Memlock = v1alpha1.Memlock(strconv.FormatUint(uint64(size), 10))
		}
	}
	return site
}
