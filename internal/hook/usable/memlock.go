package usable

import (
	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// CheckMemlock checks the locked memory of a process before it starts. has is its present limit. A runtime whose
// state is "creating" (runc) applies the limit of the OCI spec after its createRuntime hooks, others apply it before.
func CheckMemlock(want, has args.Size, spec *uint64, status string) finding.Finding {
	c := record.Memlock.Found(finding.OK, "the process may lock "+has.String())
	switch {
	case spec != nil && status == "creating" && args.Size(*spec) < want:
		c.Severity = finding.Warning
		c.Message = "the process may lock " + args.Size(*spec).String() + ", less than the requested " + want.String() +
			": the container's configuration sets this limit, and the runtime applies it after the hook"
		c.Remedy = "remove the limit: --ulimit memlock of podman and docker, default-ulimits in /etc/docker/daemon.json, " +
			"default_ulimits in containers.conf or crio.conf"
	case (spec == nil || status != "creating") && has < want:
		c.Severity = finding.Warning
		c.Message = "the process may lock " + has.String() + ", less than the requested " + want.String()
		c.Remedy = "raise the limit of the container runtime, with systemd LimitMEMLOCK=infinity"
	}
	return c
}

// kernelDefault is the limit that nobody has raised: MLOCK_LIMIT of include/uapi/linux/resource.h since Linux 5.16, and
// systemd's DefaultLimitMEMLOCK. It was 64 KiB before.
const kernelDefault = 8 << 20

// checkMemlock checks the locked memory of a running process, for which enough is sure to do. What a program needs above
// the kernel's default is not known.
func (p *Process) checkMemlock(enough args.Size) finding.Finding {
	if p.IPCLock {
		return record.Memlock.Found(finding.OK, "the process may lock any memory, with CAP_IPC_LOCK of the host")
	}
	if p.Memlock == nil {
		return record.Memlock.Found(finding.NotSeen, "the limit of the process cannot be read")
	}
	has := args.Size(*p.Memlock)
	c := record.Memlock.Found(finding.OK, "the process may lock "+has.String())
	switch {
	case has >= enough:
	case has > kernelDefault:
		c.Severity = finding.NotSeen
		c.Message += ", and what its programs need is not known"
	default:
		c.Severity = finding.Warning
		c.Message += ": registering more memory fails with ENOMEM, and NCCL uses TCP"
		c.Remedy = "give it the HCA by a CDI name, whose hook raises the limit, or start it with --ulimit memlock=-1"
	}
	return c
}
