package runtimes

import (
	"os"
	"slices"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// docker is Docker Engine, which starts a containerd, its shim and runc of the cluster.
// There is no network here for containers of their own, so it makes none. Containers are an ordinary
// user's, without capabilities and without --ulimit.
var docker = engine{
	paths: []string{"CLUSTER_PATH", "DOCKER_PATH"},
	daemon: []string{"dockerd", "--bridge=none", "--userland-proxy=false", "--iptables=false", "--ip6tables=false",
		"--log-level=warn"},
	stop:   func(p *os.Process) error { return p.Signal(os.Interrupt) }, // so it ends its containerd, too
	answer: []string{"docker", "version"},
	load:   []string{"docker", "load", "--input"},
	kill:   func(name string) []string { return []string{"docker", "kill", name} },
	run: func(name string, options ...string) []string {
		return slices.Concat([]string{"docker", "run", "--rm", "--name", name, "--network", "host", "--user", "1000",
			"--cap-drop", "all", "--security-opt", "no-new-privileges"},
			options, []string{toolsImage, "sh", "-c"})
	},
}

// docker run --device of Docker Engine 29 reads the same spec, without any setting. TestConfigureDocker has traffic.
func TestDocker(t *testing.T) {
	docker.start(t)
	t.Log(inside.Must(t, "docker", "version"))
	docker.has(t)
}
