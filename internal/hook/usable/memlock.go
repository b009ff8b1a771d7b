package usable

import "github.com/rdma-dev/dra-driver-rdma/internal/hook/args"

// CheckMemlock checks the locked memory of a process before it starts. has is its present limit. A runtime whose
// state is "creating" (runc) applies the limit of the OCI spec after its createRuntime hooks, others apply it before.
func CheckMemlock(want, has args.Size, spec *uint64, status string) Check {
	c := Check{Kind: Memlock, Result: OK, Message: "the process may lock " + has.String()}
	switch {
	case spec != nil && status == "creating" && args.Size(*spec) < want:
		c.Result = Unusable
		c.Message = "the process may lock " + args.Size(*spec).String() + ", less than the requested " + want.String() +
			": the container's configuration sets this limit, and the runtime applies it after the hook"
		c.Remedy = "remove the limit: --ulimit memlock of podman and docker, default-ulimits in /etc/docker/daemon.json, " +
			"default_ulimits in containers.conf or crio.conf"
	case (spec == nil || status != "creating") && has < want:
		c.Result = Unusable
		c.Message = "the process may lock " + has.String() + ", less than the requested " + want.String()
		c.Remedy = "raise the limit of the container runtime, with systemd LimitMEMLOCK=infinity"
	}
	return c
}
