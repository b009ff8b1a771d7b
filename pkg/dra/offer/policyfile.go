package offer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// ReadPolicy reads and validates the configuration file of a site.
func ReadPolicy(path string) (*policy.Config, error) {
	data, err := yamlread.Config.Read(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return parsePolicy(path, data)
}

// ReadPolicyArgument is ReadPolicy for a file that an argument names: - is stdin.
func ReadPolicyArgument(path string, stdin io.Reader) (*policy.Config, error) {
	data, err := yamlread.Config.ReadArgument(path, stdin)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return parsePolicy(path, data)
}

func parsePolicy(path string, data []byte) (*policy.Config, error) {
	c, err := policy.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("read configuration %q: %w", path, err)
	}
	return c, nil
}

const (
	// policyInterval is the interval of reading the configuration file without an event, because a watch may lose
	// events.
	policyInterval = time.Minute
	// policySettle is the time without an event in the file's directory before the file is read. An editor that writes
	// a file in place leaves half of it for a moment, which may be valid.
	policySettle = 200 * time.Millisecond
)

// policyFile is the last content of the configuration file. It may be invalid, and is then not the present policy.
type policyFile struct {
	data  []byte
	fault string // the last reported error
}

// Start starts to watch the directory of the configuration file. It comes before Run. A watch of the file itself would
// not work: a mounted ConfigMap is a chain of links, and an update replaces one link in the directory.
func (o *Offer) Start() (err error) {
	path := o.cfg.PolicyFile
	if path == "" {
		return nil
	}
	if o.watcher, err = fsnotify.NewWatcher(); err == nil {
		err = o.watcher.Add(filepath.Dir(path))
	}
	if err != nil {
		o.Close()
		return fmt.Errorf("watch configuration %q: %w", path, err)
	}
	return nil
}

// Close ends the watch of Start.
func (o *Offer) Close() {
	if o.watcher != nil {
		o.watcher.Close()
	}
}

// followPolicy applies changes of the configuration file until ctx ends.
func (o *Offer) followPolicy(ctx context.Context) {
	if o.watcher == nil {
		return
	}
	var f policyFile
	settled := time.NewTimer(0) // the file may have changed since it was read
	defer settled.Stop()
	ticker := time.NewTicker(policyInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.watcher.Events:
			settled.Reset(policySettle)
		case <-o.watcher.Errors: // an overflow lost events
			settled.Reset(policySettle)
		case <-settled.C:
			o.reloadPolicy(ctx, &f)
		case <-ticker.C:
			o.reloadPolicy(ctx, &f)
		}
	}
}

// reloadPolicy applies the configuration file. An invalid or missing file changes nothing. So a typing error neither
// gives a claim more nor takes its HCA away.
func (o *Offer) reloadPolicy(ctx context.Context, f *policyFile) {
	path := o.cfg.PolicyFile
	data, err := yamlread.Config.Read(path)
	if err == nil && f.data != nil && bytes.Equal(data, f.data) && f.fault == "" {
		return
	}
	var c *policy.Config
	if err == nil {
		f.data = data
		c, err = parsePolicy(path, data)
	}
	logger := klog.FromContext(ctx)
	if err != nil {
		if err.Error() != f.fault {
			f.fault = err.Error()
			refuse(o, logger, path, err)
		}
		return
	}
	f.fault = ""
	if o.refused.Swap(nil) != nil {
		o.cfg.Report.Record(event.Event{Reason: event.ConfigurationUsed, Message: "configuration " + path + " is in force"})
	}
	o.policy.Store(c)
	o.cfg.Node.SetTimes(c.HealthTimes)
	node.SetLeafSources(o.cfg.Node, c.LeafFrom())
	o.changed.Set()
	logger.Info("Configuration in force", "file", path)
	o.cfg.Report.Note("ConfigurationInForce", path, "what is published follows it")
}

// Refusal is why the driver does not use its configuration file as it is now.
type Refusal struct {
	Err error
	// First means that the driver has had no valid file since its start. Otherwise the last valid one is in force.
	First bool
}

// new returns why no new claim is prepared, nil if claims are.
func (r *Refusal) new() error {
	if r == nil || !r.First {
		return nil
	}
	return fmt.Errorf("this node's driver has had no valid configuration since its start, "+
		"so it prepares no new claim: %w", r.Err)
}

// Message says what is wrong, what follows, and what to do.
func (r *Refusal) Message() string {
	if r.First {
		return fmt.Sprintf("%v. The driver has had no valid configuration since its start: it offers nothing to new "+
			"claims, and those that are prepared stay. Correct the file (chart value config)", r.Err)
	}
	return fmt.Sprintf("%v. The one before stays in force until the driver ends. "+
		"Correct the file (chart value config)", r.Err)
}

// Refused returns why the configuration file is not used as it is now, nil if it is.
func Refused(o *Offer) *Refusal { return o.refused.Load() }

// refuse reports a file that is not used.
func refuse(o *Offer, logger klog.Logger, path string, err error) {
	before := o.refused.Load()
	now := &Refusal{err, before != nil && before.First}
	o.refused.Store(now)
	o.cfg.Report.Warn("ConfigurationNotUsed", path, err)
	o.cfg.Report.Record(event.Event{Reason: event.ConfigurationRefused, Message: now.Message()})
	if now.First {
		logger.Error(err, "Configuration not used, nothing is offered to new claims until it is corrected")
		return
	}
	logger.Error(err, "Configuration not used, the one before stays in force")
}

// siteOf returns what every newly prepared claim of the node gets: the flags, overridden by the configuration.
func siteOf(flags plan.Site, c *policy.Config) plan.Site {
	container := c.Container()
	edits := container.Edits()
	site := plan.Site{Memlock: flags.Memlock, Env: edits.Env, Mounts: edits.Mounts}
	// Parse has validated the size.
	if size, err := args.ParseSize(container.Memlock); err == nil {
		site.Memlock = v1alpha1.MemlockUnlimited
		if size != args.Unlimited {
			site.Memlock = v1alpha1.Memlock(strconv.FormatUint(uint64(size), 10))
		}
	}
	return site
}
