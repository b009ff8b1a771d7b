package runtimes

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// startDocker runs Docker Engine with 64 KiB of locked memory, and gives it the image.
// There is no network here for containers of their own, so it makes none.
func startDocker(t *testing.T) {
	t.Helper()
	log, err := os.Create("/tmp/dockerd.log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	// docker, and the containerd, its shim and runc that dockerd starts, are in the PATH.
	t.Setenv("PATH", os.Getenv("DOCKER_PATH")+":"+os.Getenv("CLUSTER_PATH")+":"+os.Getenv("PATH"))
	argv := append(inside.LockedMemory(small), "dockerd", "--bridge=none", "--userland-proxy=false", "--iptables=false", "--ip6tables=false", "--log-level=warn")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start dockerd: %v", err)
	}
	t.Cleanup(func() {
		// A terminated dockerd ends its containerd too.
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("dockerd:\n%s", text)
		}
	})
	inside.Eventually(t, "dockerd answers", 3*time.Minute, func() error { return exec.Command("docker", "version").Run() })
	inside.Must(t, "docker", "load", "--input", os.Getenv("TOOLS_ARCHIVE"))
}

// dockerRun is a docker command line: an ordinary user without capabilities, and no
// --ulimit.
func dockerRun(more ...string) []string {
	return slices.Concat([]string{"docker", "run", "--rm", "--network", "host", "--user", "1000", "--cap-drop", "all", "--security-opt", "no-new-privileges"}, more, []string{toolsImage, "sh", "-c"})
}

// docker run --device of Docker Engine 29 reads the same spec, without any setting.
func TestDocker(t *testing.T) {
	startDocker(t)
	t.Log(inside.Must(t, "docker", "version"))
	t.Run("traffic", func(t *testing.T) {
		serverScript, clientScript := traffic("rxe0")
		device := []string{"--device", "rdma.dev/hca=rxe0"}
		ended := make(chan inside.Result)
		go func() { ended <- inside.Run(append(dockerRun(append(device, "--name", "server")...), serverScript)...) }()
		client := inside.Run(append(dockerRun(device...), clientScript)...)
		if client.Code != 0 {
			inside.Run("docker", "kill", "server")
		}
		for what, r := range map[string]inside.Result{"server": <-ended, "client": client} {
			t.Logf("%s: status %d\n%s", what, r.Code, r.Out)
			unprivileged(t, what, r.Out, "rxe0")
			inside.Wants(t, what, r.Out, "5 iters in", "BW average", what+" done")
		}
	})
	t.Run("without device", func(t *testing.T) {
		out := inside.Must(t, append(dockerRun(), look)...)
		inside.Wants(t, "container", out, "nodes \n", "devices \n", "memlock soft 64 hard 64")
	})
	t.Run("unknown device", func(t *testing.T) {
		r := inside.Run(append(dockerRun("--device", "rdma.dev/hca=nosuch"), "true")...)
		if r.Code == 0 || !strings.Contains(r.Out, "rdma.dev/hca=nosuch") {
			t.Errorf("status %d: %s", r.Code, r.Out)
		}
	})
}
