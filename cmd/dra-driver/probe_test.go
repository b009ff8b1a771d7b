package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
)

const podUID = "33333333-0000-4000-8000-000000000003"

// probeNode runs the probe as a container would, with the pod's UID from its
// environment.
func probeNode(t *testing.T, n *drivertest.Node, uid string, args ...string) (code int, stderr string) {
	t.Helper()
	code, stdout, stderr := invoke(t, map[string]string{"POD_UID": uid},
		append([]string{"probe", "--kubelet-dir", n.Dir}, args...)...)
	test.Eq(t, "", stdout, test.Sprint("the probe wrote to stdout"))
	return code, stderr
}

// TestProbe: alive while the sockets answer; ready when the kubelet has
// registered the driver, which may be taken back.
func TestProbe(t *testing.T) {
	for name, uid := range map[string]string{"no pod": "", "rolling update": podUID} {
		t.Run(name, func(t *testing.T) {
			n := drivertest.NewNode(t, "hgx-h100")
			if code, stderr := probeNode(t, n, uid, "--timeout", "1s"); code != exitcode.Failed ||
				!strings.Contains(stderr, "rdma.dev") || !strings.Contains(stderr, ".sock") {
				t.Errorf("without a driver: exit code %d, %q, want the sockets", code, stderr)
			}
			p := n.Start(t, uid)
			drivertest.Eventually(t, func() error { // until it has published
				if code, stderr := probeNode(t, n, uid, "--ready"); code != exitcode.OK {
					return errors.New(stderr)
				}
				return nil
			})
			for _, args := range [][]string{nil, {"--ready"}} {
				if code, stderr := probeNode(t, n, uid, args...); code != exitcode.OK || stderr != "" {
					t.Errorf("probe %v: exit code %d, %q", args, code, stderr)
				}
			}
			notify(t, n.Sockets()[0], &registerapi.RegistrationStatus{PluginRegistered: false, Error: "not wanted"})
			if code, stderr := probeNode(t, n, uid, "--ready"); code != exitcode.Failed ||
				!strings.Contains(stderr, "the kubelet has not registered the driver yet") {
				t.Errorf("not registered: exit code %d, %q", code, stderr)
			}
			if code, stderr := probeNode(t, n, uid); code != exitcode.OK {
				t.Errorf("not registered is not dead: exit code %d, %q", code, stderr)
			}
			p.Terminate()
			if code, _ := probeNode(t, n, uid, "--timeout", "1s"); code != exitcode.Failed {
				t.Errorf("after the end: exit code %d", code)
			}
		})
	}
}

// notify tells a driver what became of its registration. It answers a refusal
// with an error.
func notify(t *testing.T, socket string, status *registerapi.RegistrationStatus) {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must.NoError(t, err)
	defer conn.Close()
	_, err = registerapi.NewRegistrationClient(conn).NotifyRegistrationStatus(drivertest.Context(t), status)
	must.Eq(t, status.PluginRegistered, (err == nil), must.Sprintf("notify: %v", err))
}

// TestProbeOfThePod: in a rolling update the probe asks the driver of its own pod.
func TestProbeOfThePod(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	n.Start(t, podUID)
	if code, stderr := probeNode(t, n, "another-pod", "--timeout", "1s"); code != exitcode.Failed ||
		!strings.Contains(stderr, "another-pod") {
		t.Errorf("exit code %d, %q, want the other pod's socket", code, stderr)
	}
}

// TestProbeTimeout: a driver that hangs is not waited for.
func TestProbeTimeout(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	p := n.Start(t, "")
	p.Suspend()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	code := make(chan int, 1)
	go func() {
		c, _ := probeNode(t, n, "", "--timeout", "100ms")
		code <- c
	}()
	select {
	case c := <-code:
		test.Eq(t, exitcode.Failed, c, test.Sprint("exit code"))
	case <-ctx.Done():
		t.Error("the probe hangs")
	}
}

// TestProbeTellsTrouble: the probe prints what is wrong with the API server, and succeeds.
func TestProbeTellsTrouble(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	n.Fail(drivertest.GetNode, 503)
	n.Start(t, "")
	drivertest.Eventually(t, func() error {
		code, stdout, stderr := invoke(t, nil, "probe", "--kubelet-dir", n.Dir)
		if code != exitcode.OK || stderr != "" {
			t.Fatalf("exit code %d, %q", code, stderr)
		}
		if !strings.Contains(stdout, "trouble with the API server: get nodes: server-error") {
			return fmt.Errorf("the probe prints %q", stdout)
		}
		return nil
	})
}

// TestProbeTellsNRI: the probe prints that the container runtime does not have the NRI plugin,
// and succeeds.
func TestProbeTellsNRI(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	n.Start(t, "", "--nri-socket", filepath.Join(n.Dir, "no-nri.sock"))
	drivertest.Eventually(t, func() error {
		code, stdout, stderr := invoke(t, nil, "probe", "--kubelet-dir", n.Dir)
		if code != exitcode.OK || stderr != "" {
			t.Fatalf("exit code %d, %q", code, stderr)
		}
		if !strings.Contains(stdout, "trouble with NRI: exec sessions and probes have the container runtime's limit") ||
			!strings.Contains(stdout, "has no socket") {
			return fmt.Errorf("the probe prints %q", stdout)
		}
		return nil
	})
}

// healthOf runs probe --health on a node as Node Problem Detector does, outside of the driver's pod.
func healthOf(t *testing.T, n *drivertest.Node) (code int, answer healthAnswer) {
	t.Helper()
	code, stdout, stderr := invoke(t, nil, "probe", "--health", "--kubelet-dir", n.Dir)
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || strings.Count(stdout, "\n") != 1 {
		t.Fatalf("the answer is %q, %v; want one line of JSON", stdout, err)
	}
	test.Eq(t, (stderr == ""), (code == exitcode.OK), test.Sprintf("exit code %d with the error %q", code, stderr))
	return code, answer
}

// TestProbeHealth: the exit code says whether an HCA is sick, and JSON says which, since when and why. Without a driver
// that is not known. A condition whose effect is Off is no fault to repair.
func TestProbeHealth(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	if code, answer := healthOf(t, n); code != exitUnknown || answer.Verdict != verdictUnknown ||
		!strings.Contains(answer.Message, "is it running") {
		t.Errorf("without a driver: exit code %d, %+v", code, answer)
	}
	n.Start(t, podUID)
	if code, answer := healthOf(t, n); code != exitcode.OK || answer.Verdict != verdictWell || answer.HCAs != 9 ||
		answer.Node != drivertest.NodeName || len(answer.Devices) > 0 {
		t.Errorf("all are well: exit code %d, %+v", code, answer)
	}
	rdmatest.SetPort(t, n.Root, "mlx5_0", "1: DOWN", "3: Disabled")
	second := n.Start(t, statusUID) // finds the fault at its start, and is asked since it is the newer one
	code, answer := healthOf(t, n)
	if code != exitcode.Failed || answer.Verdict != verdictSick || len(answer.Devices) != 1 ||
		!strings.HasPrefix(answer.Message, "mlx5_0: port-down: port 1 is DOWN (Disabled)") {
		t.Fatalf("a port is down: exit code %d, %+v", code, answer)
	}
	d := answer.Devices[0]
	if c := d.Conditions[0]; d.IBDev != "mlx5_0" || d.Name == "" || d.Health != "Unhealthy" || !c.Sick ||
		c.Condition != "port-down" || time.Since(c.Since) > time.Hour || c.Since.IsZero() {
		t.Errorf("the HCA is %+v", d)
	}
	second.Suspend() // of two drivers one may hang
	if code, answer := healthOf(t, n); code == exitUnknown {
		t.Errorf("one of two drivers hangs: exit code %d, %+v", code, answer)
	}
}

// TestHealthIsBounded: whatever the driver's page says, the answer is short, one line, and harmless for a terminal.
func TestHealthIsBounded(t *testing.T) {
	var page nodestatus.Status
	evil := strings.Repeat("\x1b[31m\n\u202e<&", 1<<10)
	for range 1000 {
		h := nodestatus.HCA{Name: evil, IBDev: evil, Health: evil, History: evil}
		for range 100 {
			h.Conditions = append(h.Conditions, nodestatus.Condition{Condition: evil, Message: evil, Sick: true})
		}
		page.HCAs = append(page.HCAs, h)
	}
	var a healthAnswer
	if err := a.judge(&page); err == nil || a.Verdict != verdictSick {
		t.Errorf("1000 sick HCAs are %q, %v", a.Verdict, err)
	}
	line, err := json.Marshal(a)
	if err != nil || len(line) > 2<<20 || a.Omitted != 1000-maxDevices || len(a.Message) > maxText+32 {
		t.Errorf("%d bytes, %d devices omitted, the message has %d bytes: %v", len(line), a.Omitted, len(a.Message), err)
	}
	test.False(t, strings.ContainsAny(string(line), "\x1b\n\u202e"),
		test.Sprint("the answer has characters on which a terminal acts"))
}

// TestJudgeUnseen: HCAs at which nobody has looked are not well, and neither is a host that could not be read.
func TestJudgeUnseen(t *testing.T) {
	const unusable = "HCA mlx5_0 has no uverbs node: load the ib_uverbs module"
	for name, test := range map[string]struct {
		page          nodestatus.Status
		verdict, says string
	}{
		"none": {nodestatus.Status{}, verdictWell, "no HCA of 0 HCAs is sick"},
		"unread": {
			nodestatus.Status{Problems: []string{"list class/infiniband: denied"}}, verdictUnknown, "class/infiniband: denied",
		},
		"unusable": {nodestatus.Status{HCAs: []nodestatus.HCA{{Reason: unusable}}}, verdictUnknown, unusable},
		"one of two": {
			nodestatus.Status{HCAs: []nodestatus.HCA{{Reason: unusable}, {Health: "Healthy"}}}, verdictWell,
			"no HCA of 1 HCA is sick; 1 more cannot be used",
		},
	} {
		var a healthAnswer
		a.Verdict = verdictUnknown
		if err := a.judge(&test.page); (err == nil) != (test.verdict == verdictWell) || a.Verdict != test.verdict || !strings.Contains(a.Message, test.says) {
			t.Errorf("%s: %v, %+v", name, err, a)
		}
	}
}
