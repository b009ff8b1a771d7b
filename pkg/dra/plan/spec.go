package plan

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// HookOptions say how containers get their locked memory limit.
type HookOptions struct {
	// Path of the hook program on the host.
	Path string
	// OnDenied is what the hook does where it may not raise the hard limit:
	// clamp, fail or ignore.
	OnDenied string
	// ReportDir is where the hook leaves its result, "" for nowhere.
	ReportDir string
}

// NotFoundError says that a device of a plan is not on the host right now. The
// kernel may be in the middle of a change, so it is worth another look.
type NotFoundError struct {
	Claim, Device string
	Err           error
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("claim %s: device %s: %v", e.Claim, e.Device, e.Err)
}

func (e *NotFoundError) Unwrap() error { return e.Err }

var errAbsent = errors.New("the host has no such RDMA device now: it was removed, or its driver is not loaded")

// Spec makes the CDI spec of a plan: one device for each request's device, with
// the nodes that its HCA has at the moment of the snapshot. It fails as a whole
// rather than leave out a node: a program that does not find its HCA falls back
// to TCP without a word.
func (p *Plan) Spec(snap *rdma.Snapshot, hook HookOptions) (*specs.Spec, error) {
	var devices []cdi.Device
	hcas := make([]*rdma.HCA, len(p.Devices))
	for i, d := range p.Devices {
		if hcas[i] = snap.Lookup(d.Device); hcas[i] == nil {
			return nil, &NotFoundError{p.Claim(), d.Device, errAbsent}
		}
	}
	for i, d := range p.Devices {
		nodes, err := cdi.SelectNodes(hcas[i], snap.RDMACM, d.Settings.Nodes)
		if err != nil {
			return nil, &NotFoundError{p.Claim(), d.Device, err}
		}
		devices = append(devices, cdi.Device{
			Name:  p.CDIName(d),
			Nodes: nodes,
			Env:   append([]string{deviceEnv(d, hcas[i])}, libraryEnv(d.Settings.Env, hcas)...),
			Hook:  hook.forLimit(d.Settings.Memlock),
		})
	}
	return cdi.NewSpec(cdi.KindClaim, devices)
}

// deviceEnv tells a container the kernel's name of a device. The variable is
// named after the device, so that the devices of a container do not overwrite
// each other's: RDMA_DEVICE_PCI_0000_3B_00_0=mlx5_0.
func deviceEnv(d Device, h *rdma.HCA) string {
	name := strings.ToUpper(strings.ReplaceAll(d.Device, "-", "_"))
	return "RDMA_DEVICE_" + name + "=" + h.IBDev
}

// libraryEnv configures libraries for all HCAs of a claim. The value is the same
// on every device, since a container with several of them keeps only the last.
func libraryEnv(libraries []string, hcas []*rdma.HCA) []string {
	var ibdevs, ports []string
	for _, h := range hcas {
		if slices.Contains(ibdevs, h.IBDev) {
			continue
		}
		ibdevs = append(ibdevs, h.IBDev)
		for _, port := range h.Ports {
			if !port.Representor {
				ports = append(ports, h.IBDev+":"+strconv.Itoa(port.Number))
			}
		}
	}
	var env []string
	for _, library := range libraries {
		switch library {
		case v1alpha1.EnvNCCL:
			// The second "=" asks NCCL for exact names: mlx5_1 would match mlx5_10.
			env = append(env, "NCCL_IB_HCA=="+strings.Join(ibdevs, ","))
		case v1alpha1.EnvUCX:
			env = append(env, "UCX_NET_DEVICES="+strings.Join(ports, ","))
		}
	}
	return env
}

// forLimit returns the hook that raises the limit, nil to inherit it.
func (o HookOptions) forLimit(m v1alpha1.Memlock) *cdi.Hook {
	if m == v1alpha1.MemlockInherit || o.Path == "" {
		return nil
	}
	limit := string(m)
	if n, err := m.Bytes(); err == nil && m != v1alpha1.MemlockUnlimited {
		limit = strconv.FormatInt(n, 10)
	}
	args := []string{"--memlock", limit, "--on-denied", o.OnDenied}
	if o.ReportDir != "" {
		args = append(args, "--report", o.ReportDir)
	}
	return &cdi.Hook{Path: o.Path, Args: args}
}
