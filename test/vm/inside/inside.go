// Package inside is what the tests share that run inside the virtual machine, one
// package each below this one: commands and how they end, waiting, and the kernel's
// own names.
package inside

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// Result is what a command said and how it ended.
type Result struct {
	Out  string
	Code int
}

// Run runs a command and returns both its outputs.
func Run(argv ...string) Result {
	cmd := exec.Command(argv[0], argv[1:]...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		return Result{err.Error(), 127}
	}
	return Result{string(out), cmd.ProcessState.ExitCode()}
}

// Must runs a command that has to succeed, and returns what it said.
func Must(t *testing.T, argv ...string) string {
	t.Helper()
	r := Run(argv...)
	must.Eq(t, 0, r.Code, must.Sprintf("%s: status %d\n%s", strings.Join(argv, " "), r.Code, r.Out))
	return r.Out
}

// Runtimes are the OCI runtimes of podman.
var Runtimes = []string{"runc", "crun"}

// EachRuntime runs a test with runc, and in a long run with crun too.
func EachRuntime(t *testing.T, test func(t *testing.T, runtime string)) {
	t.Helper()
	for _, runtime := range Runtimes {
		t.Run(runtime, func(t *testing.T) {
			if runtime != Runtimes[0] {
				needs.Long(t, "TestPodmanTraffic shows "+runtime)
			}
			test(t, runtime)
		})
	}
}

// Times returns how often a test that measures repeats itself: often with TEST_LONG, as for
// figures of documents, else as often as it takes to see that it works.
func Times(long int) int {
	if needs.IsLong() {
		return long
	}
	return long / 5
}

// Eventually waits for a condition, and returns how long that took, give or take a
// tenth: it looks less often the longer it waits, since the guest has one CPU.
func Eventually(t *testing.T, what string, limit time.Duration, try func() error) time.Duration {
	t.Helper()
	start := time.Now()
	for {
		err := try()
		if err == nil {
			return time.Since(start)
		}
		took := time.Since(start)
		must.LessEq(t, limit, took, must.Sprintf("%s: not within %s: %v", what, limit, err))
		time.Sleep(5*time.Millisecond + took/10)
	}
}

// NetnsMode sets the network namespace mode of the RDMA subsystem. The kernel refuses while there is a namespace beside
// the host's, and one that has ended is there for a moment.
func NetnsMode(t *testing.T, want string) {
	t.Helper()
	Eventually(t, "set the mode to "+want, time.Minute, func() error {
		if r := Run("rdma", "system", "set", "netns", want); r.Code != 0 {
			return errors.New(r.Out)
		}
		return nil
	})
}

// Install copies programs to where they belong, and makes them executable.
func Install(programs map[string]string) error {
	var errs []error
	for from, to := range programs {
		data, err := os.ReadFile(from)
		errs = append(errs, err, os.WriteFile(to, data, 0o755))
	}
	return errors.Join(errs...)
}

// UnloadCore unloads the modules of the RDMA stack that no device needs any more. The
// socket of RDMA notifications that somebody has open keeps ib_core for a moment.
func UnloadCore(t *testing.T, limit time.Duration) {
	t.Helper()
	for _, module := range []string{"rdma_ucm", "ib_uverbs", "ib_umad", "rdma_cm", "iw_cm", "ib_cm", "ib_core"} {
		Eventually(t, "unload "+module, limit, func() error {
			if _, err := os.Stat(filepath.Join("/sys/module", module)); err != nil {
				return nil
			}
			if r := Run("rmmod", module); r.Code != 0 {
				return fmt.Errorf("rmmod: %s", r.Out)
			}
			return nil
		})
	}
}

// Wants asserts that a text has all the words.
func Wants(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		test.StrContains(t, text, word, test.Sprintf("%s does not say", what))
	}
}

// Node is the node of an ibdev in a class, by the kernel's own word: uverbs0 for
// infiniband_verbs, umad0 for infiniband_mad.
func Node(t *testing.T, class, ibdev string) string {
	t.Helper()
	files, err := filepath.Glob("/sys/class/" + class + "/*/ibdev")
	must.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		must.NoError(t, err)
		name := filepath.Base(filepath.Dir(file))
		if strings.TrimSpace(string(data)) == ibdev && !strings.HasPrefix(name, "issm") {
			return name
		}
	}
	t.Fatalf("the kernel has no node of class %s for %s", class, ibdev)
	return ""
}

// SentPackets is how many packets a soft-RoCE device has sent, by the kernel's count: perftest
// cannot tell the speed where the clock is emulated.
func SentPackets(t *testing.T, ibdev string) int {
	t.Helper()
	data, err := os.ReadFile("/sys/class/infiniband/" + ibdev + "/ports/1/hw_counters/sent_pkts")
	must.NoError(t, err)
	packets, err := strconv.Atoi(strings.TrimSpace(string(data)))
	must.NoError(t, err)
	return packets
}

// SetUpPodman makes podman do without systemd and its journal, which are not there.
func SetUpPodman() error {
	const dir = "/etc/containers"
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.WriteFile(dir+"/containers.conf", []byte("[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n"), 0o644)
	}
	if err != nil {
		return fmt.Errorf("set up podman: %w", err)
	}
	return nil
}
