package runtimes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// engine is a container engine that reads CDI specs.
type engine struct {
	paths  []string // variables with the directories of its programs
	daemon []string
	stop   func(*os.Process) error
	answer []string // a command that succeeds once the daemon serves
	load   []string // a command that loads the image, which is named after it
	loaded bool     // the daemon's disk has the image
	kill   func(container string) []string
	// run is a command line for a script in a container of an ordinary user, in the host's network.
	run func(container string, options ...string) []string
}

// start runs the daemon with 64 KiB of locked memory until the end of the test, and
// gives it the image.
func (e *engine) start(t *testing.T) {
	t.Helper()
	name := e.daemon[0]
	log, err := os.Create(filepath.Join("/tmp", name+".log"))
	must.NoError(t, err)
	defer log.Close()
	path := os.Getenv("PATH")
	for _, p := range e.paths {
		path = os.Getenv(p) + ":" + path
	}
	t.Setenv("PATH", path)
	argv := append(inside.LockedMemory(small), e.daemon...)
	var cmd *exec.Cmd
	ended := make(chan error, 1)
	begin := func() {
		cmd = exec.Command(argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr = log, log
		must.NoError(t, cmd.Start(), must.Sprintf("start %s", name))
		go func(c *exec.Cmd) { ended <- c.Wait() }(cmd)
	}
	begin()
	t.Cleanup(func() {
		test.NoError(t, e.stop(cmd.Process), test.Sprintf("stop %s", name))
		<-ended
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s:\n%s", name, text)
		}
	})
	inside.Eventually(t, name+" answers", 3*time.Minute, func() error {
		select {
		case err := <-ended: // dockerd ends if its containerd needs more than some seconds, as on a busy host
			begin()
			return fmt.Errorf("it has ended: %w", err)
		default:
			return exec.Command(e.answer[0], e.answer[1:]...).Run()
		}
	})
	if !e.loaded {
		inside.Must(t, append(e.load, os.Getenv("TOOLS_ARCHIVE"))...)
		e.loaded = true
	}
}

// serves proves that containers get what they name by --device, and nothing else.
func (e *engine) serves(t *testing.T) {
	t.Run("traffic", func(t *testing.T) {
		serverScript, clientScript := traffic("rxe0")
		device := []string{"--device", "rdma.dev/hca=rxe0"}
		ended := make(chan inside.Result)
		go func() { ended <- inside.Run(append(e.run("server", device...), serverScript)...) }()
		client := inside.Run(append(e.run("client", device...), clientScript)...)
		if client.Code != 0 {
			inside.Run(e.kill("server")...)
		}
		for what, r := range map[string]inside.Result{"server": <-ended, "client": client} {
			t.Logf("%s: status %d\n%s", what, r.Code, r.Out)
			unprivileged(t, what, r.Out, "rxe0")
			inside.Wants(t, what, r.Out, "5 iters in", "BW average", what+" done")
		}
	})
	t.Run("without device", func(t *testing.T) {
		out := inside.Must(t, append(e.run("bare"), look)...)
		inside.Wants(t, "container", out, "nodes \n", "devices \n", "memlock soft 64 hard 64")
	})
	t.Run("unknown device", func(t *testing.T) {
		r := inside.Run(append(e.run("none", "--device", "rdma.dev/hca=nosuch"), "true")...)
		if r.Code == 0 || !strings.Contains(r.Out, "rdma.dev/hca=nosuch") {
			t.Errorf("status %d: %s", r.Code, r.Out)
		}
	})
}
