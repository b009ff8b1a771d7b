package pods

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// follow keeps the connection to the container runtime until ctx ends. Without NRI it returns at once.
func (s *Pods) follow(ctx context.Context) {
	if s.plugin == nil {
		return
	}
	logger := klog.FromContext(ctx)
	s.plugin.Report = func(err error) {
		if err != nil {
			logger.Error(err, "Not connected to NRI: no RDMA device follows a pod, "+
				"and exec sessions have the runtime's limit of locked memory")
			s.cfg.Report.Warn("NRIDisconnected", s.cfg.NodeName, err)
			return
		}
		logger.Info("Connected to NRI", "socket", s.cfg.NRISocket)
		s.cfg.Report.Note("NRIConnected", s.cfg.NodeName, "the container runtime has the driver's NRI plugin")
	}
	s.plugin.Run(ctx)
}

// Connected reports whether the container runtime has the driver's plugin, nil if the driver uses no NRI.
func (s *Pods) Connected() *bool {
	if s.plugin == nil {
		return nil
	}
	return new(s.plugin.Connected())
}

// Trouble returns the consequences of a missing connection to NRI, nil if the driver is connected or uses no NRI.
func (s *Pods) Trouble() error {
	if s.plugin == nil {
		return nil
	}
	err := s.plugin.Trouble()
	switch {
	case err == nil:
		return nil
	case s.cfg.Node.Moves.Possible():
		return fmt.Errorf("no RDMA device follows a pod, so pods with claims do not start: %w", err)
	case s.cfg.Attacher != nil:
		return fmt.Errorf("no pod gets a network interface or is told a GID index, "+
			"so pods with such claims do not start: %w", err)
	default:
		return fmt.Errorf("exec sessions and probes have the container runtime's limit of locked memory: %w", err)
	}
}

// Adjust implements nri.Handler.
func (s *Pods) Adjust(ctx context.Context, pod nri.Pod, c nri.Container) nri.Adjustment {
	return nri.Adjustment{Memlock: memlock(c), Env: s.gids.variables(ctx, pod, c)}
}

// memlock returns the limit that the hooks of the container's claims would set, nil for none. A limit in the OCI spec
// also holds for exec sessions and probes. The hook then has nothing to do, unless another plugin changes the spec
// afterwards.
func memlock(c nri.Container) *uint64 {
	var want args.Size
	for _, opts := range hooksOf(c) {
		want = max(want, opts.Memlock)
	}
	limit := uint64(want)
	if limit == 0 || c.Memlock != nil && *c.Memlock >= limit {
		return nil
	}
	return &limit
}

// Using implements claims.Pods. The runtime lists its containers with their CDI devices and hooks. The list is complete
// only if it has the driver's own pod: a runtime that is still starting may list no pod yet.
func (s *Pods) Using(p *plan.Plan) (pods []types.UID, complete bool) {
	if s.plugin == nil {
		return nil, false
	}
	sandboxes, known := s.plugin.Sandboxes()
	complete = known && s.cfg.PodUID == ""
	for _, sandbox := range sandboxes {
		pod := types.UID(sandbox.UID)
		complete = complete || known && pod == s.cfg.PodUID
		uses := func(c nri.Container) bool { return usesClaim(c, p) }
		if slices.Contains(p.KnownPods(), pod) || slices.ContainsFunc(sandbox.Containers, uses) {
			pods = append(pods, pod)
		}
	}
	return pods, complete
}

// usesClaim reports whether a container was created with a device of a claim: it has the CDI device or the hook of the
// claim.
func usesClaim(c nri.Container, p *plan.Plan) bool {
	ids := p.CDIDevices()
	if slices.ContainsFunc(c.CDIDevices, func(id string) bool { return slices.Contains(ids, id) }) {
		return true
	}
	return slices.ContainsFunc(hooksOf(c), func(o args.Options) bool { return o.Claim == string(p.UID) })
}

// hooksOf returns the options of the driver's hooks in a container.
func hooksOf(c nri.Container) (all []args.Options) {
	for _, h := range c.Hooks {
		if len(h) < 2 || !strings.HasPrefix(filepath.Base(h[0]), "rdma-hook") {
			continue
		}
		if opts, _, err := args.Parse(h[2:]); err == nil {
			all = append(all, opts)
		}
	}
	return all
}
