package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/install"
	"github.com/rdma-dev/dra-driver-rdma/internal/version"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// hookFlags say where the hook comes from and goes to.
type hookFlags struct {
	source   string
	dir      string
	onDenied string
}

var onDeniedPolicies = []string{string(hook.Clamp), string(hook.Fail), string(hook.Ignore)}

func (h *hookFlags) register(f *pflag.FlagSet) {
	f.StringVar(&h.source, "hook-source", "", "the hook program to install on the host (default rdma-hook beside this program)")
	f.StringVar(&h.dir, "hook-dir", "/opt/rdma.dev/bin", "directory of the host for the hook, at the same path in the driver's pod, on a file system without noexec; empty for no hook")
	f.StringVar(&h.onDenied, "memlock-denied", string(hook.Clamp), "what the hook does where it may not raise the hard limit: clamp, fail or ignore")
}

// install puts the hook of this version on the host and removes versions that no
// claim uses any more. Containers of prepared claims keep the hook they have.
func (h *hookFlags) install(ctx context.Context, cdiDir string) (plan.HookOptions, error) {
	logger := klog.FromContext(ctx)
	if h.dir == "" {
		logger.Info("No hook: containers keep the locked memory limit of the container runtime")
		return plan.HookOptions{}, nil
	}
	if h.source == "" {
		self, err := os.Executable()
		if err != nil {
			return plan.HookOptions{}, fmt.Errorf("find the hook to install: %w", err)
		}
		h.source = filepath.Join(filepath.Dir(self), "rdma-hook")
	}
	path, err := install.Install(h.source, h.dir, version.Get())
	if err != nil {
		return plan.HookOptions{}, err
	}
	inUse, err := claimSpecs(cdiDir)
	if err != nil {
		return plan.HookOptions{}, err
	}
	removed, err := install.Prune(h.dir, func(candidate string) bool {
		return candidate == path || slices.ContainsFunc(inUse, func(spec []byte) bool {
			return bytes.Contains(spec, []byte(`"`+candidate+`"`))
		})
	})
	if err != nil {
		logger.Error(err, "Some hooks of earlier versions stay")
	}
	logger.Info("Hook installed", "path", path, "removed", removed)
	return plan.HookOptions{Path: path, OnDenied: h.onDenied}, nil
}

// claimSpecs reads the CDI specs of prepared claims.
func claimSpecs(dir string) ([][]byte, error) {
	store := cdi.Store{Dir: dir}
	ids, err := store.IDs(cdi.KindClaim)
	if err != nil {
		return nil, err
	}
	var specs [][]byte
	for _, id := range ids {
		data, err := os.ReadFile(store.Path(cdi.SpecName(cdi.KindClaim, id), cdi.JSON))
		if err != nil && !os.IsNotExist(err) {
			return nil, fmt.Errorf("read CDI spec: %w", err)
		}
		specs = append(specs, data)
	}
	return specs, nil
}
