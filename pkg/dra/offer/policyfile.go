package offer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// ReadPolicy reads and validates the policy of a site.
func ReadPolicy(path string) (*policy.Config, error) {
	data, err := yamlread.Config.Read(path)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	return parsePolicy(path, data)
}

// ReadPolicyArgument is ReadPolicy for a file that an argument names: - is stdin.
func ReadPolicyArgument(path string, stdin io.Reader) (*policy.Config, error) {
	data, err := yamlread.Config.ReadArgument(path, stdin)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	return parsePolicy(path, data)
}

func parsePolicy(path string, data []byte) (*policy.Config, error) {
	c, err := policy.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("read policy %q: %w", path, err)
	}
	return c, nil
}

const (
	// policyInterval is the interval of reading the policy without an event, because a watch may lose events.
	policyInterval = time.Minute
	// policySettle is the time without an event in the file's directory before the file is read. An editor that writes
	// a file in place leaves half of it for a moment, which may be valid.
	policySettle = 200 * time.Millisecond
)

// PolicyFile is the policy of the node, and follows the file that has it. It is safe for concurrent use.
type PolicyFile struct {
	cfg     *Config
	changed loop.Signal // of the Offer
	inForce atomic.Pointer[policy.Config]
	refused atomic.Pointer[Refusal] // of the file as it is now, nil for none
	watcher *fsnotify.Watcher       // of the file's directory; nil for none

	// The last content of the file may be invalid, and is then not the policy in force. Only follow uses it.
	data   []byte
	faults loop.Errors // that were reported
}

// Start starts to watch the directory of the policy. It comes before Run. A watch of the file itself would not work: a
// mounted ConfigMap is a chain of links, and an update replaces one link in the directory.
func (f *PolicyFile) Start() (err error) {
	path := f.cfg.PolicyFile
	if path == "" {
		return nil
	}
	if f.watcher, err = fsnotify.NewWatcher(); err == nil {
		err = f.watcher.Add(filepath.Dir(path))
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("watch policy %q: %w", path, err)
	}
	return nil
}

// Close ends the watch of Start.
func (f *PolicyFile) Close() {
	if f.watcher != nil {
		f.watcher.Close()
	}
}

// follow applies changes of the policy until ctx ends.
func (f *PolicyFile) follow(ctx context.Context) {
	if f.watcher == nil {
		return
	}
	settled := time.NewTimer(0) // the file may have changed since it was read
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
			f.reload(ctx)
		case <-ticker.C:
			f.reload(ctx)
		}
	}
}

// reload applies the policy. An invalid or missing file changes nothing. So a typing error neither gives a claim more
// nor takes its HCA away.
func (f *PolicyFile) reload(ctx context.Context) {
	path := f.cfg.PolicyFile
	data, err := yamlread.Config.Read(path)
	if err == nil && f.data != nil && bytes.Equal(data, f.data) && f.Refused() == nil {
		return
	}
	var c *policy.Config
	if err == nil {
		f.data = data
		c, err = parsePolicy(path, data)
	}
	logger := klog.FromContext(ctx)
	if f.faults.IsNew(path, err) {
		f.refuse(logger, path, err)
	}
	if err != nil {
		return
	}
	if f.refused.Swap(nil) != nil {
		f.cfg.Report.Record(event.Event{Reason: event.ConfigurationUsed, Message: "policy " + path + " is in force"})
	}
	f.inForce.Store(c)
	f.apply()
	f.changed.Set()
	logger.Info("Policy in force", "file", path)
	f.cfg.Report.Note("ConfigurationInForce", path, "what is published follows it")
}

// apply tells the node what the policy in force says about it.
func (f *PolicyFile) apply() {
	c := f.inForce.Load()
	f.cfg.Node.SetPolicy(c.HealthTimes, c.LeafFrom())
}

// Refusal is why the driver does not use its policy as it is now.
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
	return fmt.Errorf("this node's driver has had no valid policy since its start, "+
		"so it prepares no new claim: %w", r.Err)
}

// Message says what is wrong, what follows, and what to do.
func (r *Refusal) Message() string {
	if r.First {
		return fmt.Sprintf("%v. The driver has had no valid policy since its start: it offers nothing to new "+
			"claims, and those that are prepared stay. Correct the file (chart value config)", r.Err)
	}
	return fmt.Sprintf("%v. The one before stays in force until the driver ends. "+
		"Correct the file (chart value config)", r.Err)
}

// Refused returns why the policy is not used as it is now, nil if it is.
func (f *PolicyFile) Refused() *Refusal { return f.refused.Load() }

// refuse reports a file that is not used.
func (f *PolicyFile) refuse(logger klog.Logger, path string, err error) {
	before := f.refused.Load()
	now := &Refusal{err, before != nil && before.First}
	f.refused.Store(now)
	f.cfg.Report.Warn("ConfigurationNotUsed", path, err)
	f.cfg.Report.Record(event.Event{Reason: event.ConfigurationRefused, Message: now.Message()})
	if now.First {
		logger.Error(err, "Policy not used, nothing is offered to new claims until it is corrected")
		return
	}
	logger.Error(err, "Policy not used, the one before stays in force")
}

// siteOf returns what every newly prepared claim of the node gets: the flags, overridden by the policy.
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
