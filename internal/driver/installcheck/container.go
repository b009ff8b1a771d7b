package installcheck

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// Container is what a container with a claim should have.
type Container struct {
	// Dir is the directory of device nodes: /dev/infiniband.
	Dir string
	// Memlock is the least soft limit of locked memory.
	Memlock v1alpha1.Memlock
	// Fixture accepts nodes without a device behind them.
	Fixture bool
}

// Check returns what the calling process has of it, in words, or the first thing that is missing, with what to do.
func (c Container) Check() (string, error) {
	nodes, err := filepath.Glob(filepath.Join(c.Dir, "uverbs*"))
	if err != nil || len(nodes) == 0 {
		return "", fmt.Errorf("no uverbs node in %s: nothing of the claim's CDI spec is in the container; "+
			"containerd 1.7 needs enable_cdi = true, other runtimes the chart's hostPaths.cdi in cdi_spec_dirs", c.Dir)
	}
	for i, node := range nodes {
		if err := c.open(node); err != nil {
			return "", err
		}
		nodes[i] = filepath.Base(node)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return "", fmt.Errorf("read the limit of locked memory: %w", err)
	}
	want, err := c.Memlock.Bytes()
	if err != nil {
		return "", fmt.Errorf("read the wanted limit %q: %w", c.Memlock, err)
	}
	if soft := args.Size(limit.Cur); limit.Cur < uint64(want) {
		return "", fmt.Errorf("locked memory is limited to %v, want %s: the hook did not raise it; "+
			"its reason is in the driver's log on this node; set LimitMEMLOCK=infinity for the container runtime, or "+
			"the value lockedMemory.limit of the chart", soft, c.Memlock)
	}
	slices.Sort(nodes)
	return fmt.Sprintf("%s, locked memory %v", strings.Join(nodes, " "), args.Size(limit.Cur)), nil
}

// open opens a node as a program with verbs does.
func (c Container) open(node string) error {
	f, err := os.OpenFile(node, os.O_RDWR, 0)
	switch {
	case err == nil:
		return f.Close()
	case c.Fixture && (errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.ENODEV)):
		return nil
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: the container may not use its device; check the device cgroup, and on SELinux the "+
			"label of the node (infiniband_device_t)", err)
	case errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.ENODEV):
		return fmt.Errorf("%w: the kernel has no device behind the node; did the HCA's driver reload? the log of the "+
			"driver on this node says more", err)
	}
	return fmt.Errorf("%w: see the kernel's log on this node (dmesg)", err)
}

// WriteTerminationLog leaves a result in the file that the kubelet reads when the container ends. The file is a mount,
// so it cannot be replaced whole.
func WriteTerminationLog(path, result string) error {
	if err := os.WriteFile(path, []byte(result+"\n"), 0o644); err != nil {
		return fmt.Errorf("leave the result for the kubelet: %w", err)
	}
	return nil
}
