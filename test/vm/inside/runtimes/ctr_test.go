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

// startContainerd runs the containerd of the embedded cluster with 64 KiB of locked
// memory, and gives it the image.
func startContainerd(t *testing.T) {
	t.Helper()
	log, err := os.Create("/tmp/containerd.log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	// containerd, its shim, ctr and runc are found in the PATH.
	t.Setenv("PATH", os.Getenv("CLUSTER_PATH")+":"+os.Getenv("PATH"))
	argv := append(inside.LockedMemory(small), "containerd")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start containerd: %v", err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		os.Remove("/run/containerd/containerd.sock") // dockerd would take it for a containerd
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("containerd:\n%s", text)
		}
	})
	inside.Eventually(t, "containerd answers", 3*time.Minute, func() error { return exec.Command("ctr", "version").Run() })
	inside.Must(t, "ctr", "images", "import", "--local", os.Getenv("TOOLS_ARCHIVE"))
}

// ctrRun is a ctr command line for an ordinary user.
func ctrRun(name string, more ...string) []string {
	return slices.Concat([]string{"ctr", "run", "--rm", "--net-host", "--user", "1000"}, more, []string{toolsImage, name, "sh", "-c"})
}

// ctr run --device of containerd 2.x reads the same spec.
func TestContainerd(t *testing.T) {
	startContainerd(t)
	t.Log(inside.Must(t, "containerd", "--version"))
	t.Run("traffic", func(t *testing.T) {
		serverScript, clientScript := traffic("rxe0")
		device := []string{"--device", "rdma.dev/hca=rxe0"}
		ended := make(chan inside.Result)
		go func() { ended <- inside.Run(append(ctrRun("server", device...), serverScript)...) }()
		client := inside.Run(append(ctrRun("client", device...), clientScript)...)
		if client.Code != 0 {
			inside.Run("ctr", "tasks", "kill", "--signal", "KILL", "server")
		}
		for what, r := range map[string]inside.Result{"server": <-ended, "client": client} {
			t.Logf("%s: status %d\n%s", what, r.Code, r.Out)
			unprivileged(t, what, r.Out, "rxe0")
			inside.Wants(t, what, r.Out, "5 iters in", "BW average", what+" done")
		}
	})
	t.Run("without device", func(t *testing.T) {
		out := inside.Must(t, append(ctrRun("bare"), look)...)
		inside.Wants(t, "container", out, "nodes \n", "devices \n", "memlock soft 64 hard 64")
	})
	t.Run("unknown device", func(t *testing.T) {
		r := inside.Run(append(ctrRun("none", "--device", "rdma.dev/hca=nosuch"), "true")...)
		if r.Code == 0 || !strings.Contains(r.Out, "rdma.dev/hca=nosuch") {
			t.Errorf("status %d: %s", r.Code, r.Out)
		}
	})
}
