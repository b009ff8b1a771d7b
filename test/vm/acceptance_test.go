package vm_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
)

// TestAcceptance runs kubectl rdma test on two nodes with a real RDMA kernel each, and two HCAs of one rail on each
// node. Healthy HCAs pass with the rate of their links. A slow link, a link that fails during the test, interruptions
// and a kill have the results that docs/kubectl-rdma.md promises.
func TestAcceptance(t *testing.T) {
	needs.Long(t, "it runs for more than twenty minutes; TestTraffic of test/cluster/e2e/plugin has the objects of a test on a "+
		"real API server, and TestPair of internal/inspect/traffic the measurement")
	archive, plugin := perftestImage(t)
	b := newBedWith(t, bedOptions{oneRail: true, archives: []string{archive}},
		"config.publishInterval=0s", "config.health.downAfter=0s", "config.health.upAfter=0s")
	a := acceptance{b, plugin}
	a.prepare(t)
	t.Run("healthy", a.healthy)
	t.Run("slow", a.slow)
	t.Run("cron job", a.cronJob)
	t.Run("cut", a.cut)
	t.Run("interrupted", a.interrupted)
	t.Run("killed", a.killed)
}

// perftestImage makes the image that belongs to a release, from Debian's packages and the plugin.
func perftestImage(t *testing.T) (archive, plugin string) {
	t.Helper()
	checkout, err := deploy.FindCheckout()
	must.NoError(t, err)
	plugin = filepath.Join(compile(t, "kubectl-rdma"), "kubectl-rdma")
	archive, tree := filepath.Join(t.TempDir(), "perftest.tar"), filepath.Join(t.TempDir(), "perftest")
	for _, args := range [][]string{
		{"packaging/perftest/unpack.sh", "amd64", tree},
		{"packaging/image.sh", perftestName, archive, plugin},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(string(checkout), args[0]), args[1:]...)
		cmd.Env = append(os.Environ(), "TREE="+tree)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make the image with perftest: %v\n%s", err, out)
		}
	}
	return archive, plugin
}

// acceptance is a bed for kubectl rdma test.
type acceptance struct {
	*bed
	plugin string
}

const (
	// perftestName is the image of examples/test-nodes.yaml.
	perftestName        = "registry.example.com/rdma-perftest:1"
	acceptanceNamespace = "rdma-test"
	// linkRate is that of all links, in kb/s: the network limits the traffic, and not the emulated processors.
	linkRate = 12_000
	// leastPercent is --min. Emulated processors have other work, too: the default of 85 % is for machines without.
	// Traffic on a link with a tenth is below this, and other traffic is not.
	leastPercent = "--min=60"
)

// prepare makes the namespace and the links. Each HCA reaches each other one by its own interface. The neighbors are
// permanent: soft-RoCE of Linux 6.12 crashes if the kernel gives up to find the neighbor of a packet whose queue pair
// is gone (rxe_skb_tx_dtor of drivers/infiniband/sw/rxe/rxe_net.c), and after a cut it does give up.
func (a acceptance) prepare(t *testing.T) {
	manifest, err := os.ReadFile(a.checkout.Example("test-nodes"))
	must.NoError(t, err)
	const argument = "- --namespace=rdma-test\n"
	before, after, found := strings.Cut(string(manifest), argument)
	must.True(t, found, must.Sprintf("examples/test-nodes.yaml has no argument %q", argument))
	indent := before[strings.LastIndex(before, "\n")+1:]
	path := filepath.Join(t.TempDir(), "test-nodes.yaml")
	content := before + argument + indent + "- " + leastPercent + "\n" + after
	must.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	a.apply(t, path)
	a.kubectl(t, "label", "namespace", acceptanceNamespace, "pod-security.kubernetes.io/enforce=restricted")
	for i, m := range a.members {
		m.run(t, "modprobe", "sch_netem")
		// The uplink leads to the API server, and knows the node's own address alone: the CronJob's pod has another.
		m.run(t, "iptables", "-t", "nat", "-A", "POSTROUTING", "-d", cluster.ServiceIP, "-o", "eth1",
			"-j", "MASQUERADE")
		other := a.members[1-i]
		for rail, d := range railDevices {
			m.run(t, "sh", "-c", "echo 0 >/proc/sys/net/ipv4/conf/"+d.Netdev+"/rp_filter")
			m.run(t, "ip", "route", "add", "10.77.0.0/16", "dev", d.Netdev, "metric", fmt.Sprint(100+rail))
			for _, to := range railDevices {
				address := strings.Fields(other.run(t, "ip", "-4", "-brief", "address", "show", to.Netdev))[2]
				address, _, _ = strings.Cut(address, "/")
				mac := strings.TrimSpace(other.run(t, "cat", "/sys/class/net/"+to.Netdev+"/address"))
				m.run(t, "ip", "neighbor", "replace", address, "lladdr", mac, "dev", d.Netdev, "nud", "permanent")
			}
			m.limit(t, d.Netdev, linkRate)
		}
	}
}

// limit limits what a network device of the node sends, in kb/s. The machine's kernel has netem's limit, and no tbf.
func (m *memberNode) limit(t *testing.T, device string, rate int) {
	t.Helper()
	m.run(t, "tc", "qdisc", "replace", "dev", device, "root", "netem", "rate", fmt.Sprintf("%dkbit", rate))
}

// trafficTest is what programs read of kubectl rdma test.
type trafficTest struct {
	HCAs []struct {
		Node, IBDev string
		State       string
	}
	Pairs []struct {
		A, B               string
		AToBGbps, BToAGbps float64
		Error              string
	}
}

func (r trafficTest) states() (out []string) {
	for _, h := range r.HCAs {
		out = append(out, h.Node+"/"+h.IBDev+" "+h.State)
	}
	slices.Sort(out)
	return out
}

// trafficRun is kubectl rdma test while it runs.
type trafficRun struct {
	acceptance
	cmd            *exec.Cmd
	stdout, stderr output
	began          time.Time
	ended          chan struct{} // closed when err and the outputs are complete
	err            error
}

// start starts a test of both nodes, with the rights of the example.
func (a acceptance) start(t *testing.T, args ...string) *trafficRun {
	t.Helper()
	r := &trafficRun{acceptance: a, began: time.Now(), ended: make(chan struct{})}
	r.cmd = exec.CommandContext(t.Context(), a.plugin, append([]string{
		"test", "nodes", a.members[0].name, a.members[1].name, "--kubeconfig", a.Kubeconfig(),
		"--as=system:serviceaccount:rdma-test:rdma-test", "-n", acceptanceNamespace, "--image", perftestName,
		"--wait=15m", leastPercent,
	}, args...)...)
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	must.NoError(t, r.cmd.Start())
	go func() {
		defer close(r.ended)
		r.err = r.cmd.Wait()
	}()
	return r
}

// wait waits for the end of the command, and wants one of these exit codes and that nothing is left.
func (r *trafficRun) wait(t *testing.T, codes ...int) {
	t.Helper()
	r.eventually(t, "kubectl rdma test ends", 20*time.Minute, func() error {
		select {
		case <-r.ended:
			return nil
		default:
			return fmt.Errorf("it says\n%s\n%s", &r.stderr, &r.stdout)
		}
	})
	t.Logf("after %s: %v\n%s\n%s", time.Since(r.began).Round(time.Second), r.err, &r.stderr, &r.stdout)
	must.True(t, slices.Contains(codes, r.cmd.ProcessState.ExitCode()), must.Sprint("the exit code"))
	r.nothingLeft(t)
}

// report is the report of a command with -o json that has ended.
func (r *trafficRun) report(t *testing.T) (out trafficTest) {
	t.Helper()
	must.NoError(t, json.Unmarshal([]byte(r.stdout.String()), &out))
	for _, p := range out.Pairs {
		if p.Error != "" {
			t.Errorf("%s with %s: %s", p.A, p.B, p.Error)
		}
	}
	return out
}

// traffic waits until the first node sends RoCE, while the command runs.
func (r *trafficRun) traffic(t *testing.T) {
	t.Helper()
	sent := func() uint64 { return r.members[0].rails[0].Sent(vm.RoCE).Bytes }
	before := sent()
	r.eventually(t, "traffic begins", 15*time.Minute, func() error {
		select {
		case <-r.ended:
			t.Fatalf("the command ended before the traffic began: %v\n%s\n%s", r.err, &r.stderr, &r.stdout)
		default:
		}
		if now := sent(); now < before+1<<20 {
			return fmt.Errorf("%s has sent %d bytes; the command says %s", r.members[0].name, now-before, &r.stderr)
		}
		return nil
	})
}

// left lists the objects of tests, and the processes of perftest on the nodes.
func (a acceptance) left(t *testing.T) []string {
	t.Helper()
	left := strings.Fields(a.kubectl(t, "get", "jobs,pods,resourceclaims", "-n", acceptanceNamespace,
		"-l", "rdma.dev/test", "-o", "name"))
	for _, m := range a.members {
		left = append(left, strings.Fields(m.run(t, "sh", "-c", "pgrep -x ib_write_bw || true"))...)
	}
	return left
}

func (a acceptance) nothingLeft(t *testing.T) {
	t.Helper()
	if left := a.left(t); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// wantRates wants each pair to have the rate of the slower of its two links. A busy processor may take some of it.
func (r trafficTest) wantRates(t *testing.T, slow string) {
	t.Helper()
	for _, p := range r.Pairs {
		got, want := min(p.AToBGbps, p.BToAGbps), linkRate/1e6
		if p.A == slow || p.B == slow {
			want /= 10
		}
		if got < 0.3*want || got > 1.5*want {
			t.Errorf("%s with %s: %.4f Gb/s, and the slower link has %.4f", p.A, p.B, got, want)
		}
	}
}

func (a acceptance) healthy(t *testing.T) {
	run := a.start(t, "-o", "json")
	run.wait(t, 0)
	r := run.report(t)
	if want := a.all("good"); !slices.Equal(r.states(), want) || len(r.Pairs) != 8 {
		t.Errorf("the verdicts are %q of %d pairs, want %q of 8", r.states(), len(r.Pairs), want)
	}
	r.wantRates(t, "")
	said, err := exec.CommandContext(t.Context(), a.plugin, "--kubeconfig", a.Kubeconfig(), "status", "-A", "--tests",
		acceptanceNamespace).CombinedOutput()
	t.Logf("kubectl rdma status --tests: %v\n%s", err, said)
	if err != nil || !strings.Contains(string(said), "Tests by traffic: 4 good, 0 failed, 0 untested;") {
		t.Error("the status does not have the results")
	}
}

// all is what states returns if all HCAs have one.
func (a acceptance) all(state string) (out []string) {
	for _, m := range a.members {
		for _, d := range railDevices {
			out = append(out, m.name+"/"+d.Name+" "+state)
		}
	}
	slices.Sort(out)
	return out
}

// slow: a link with a tenth of the rate makes its HCA slow, and no other one.
func (a acceptance) slow(t *testing.T) {
	m, d := a.members[1], railDevices[1]
	m.limit(t, d.Netdev, linkRate/10)
	defer m.limit(t, d.Netdev, linkRate)
	run := a.start(t, "-o", "json", "--alone")
	run.wait(t, 3)
	r := run.report(t)
	bad := m.name + "/" + d.Name
	want := a.all("good")
	want[slices.Index(want, bad+" good")] = bad + " slow"
	test.SliceEqOp(t, want, r.states(), test.Sprint("the verdicts"))
	r.wantRates(t, bad)
}

// cut: the link of an HCA fails in the middle of a measurement. Its pairs are not measured, with a line that says why,
// and the test ends. The other HCAs have figures, and verdicts.
func (a acceptance) cut(t *testing.T) {
	port := a.members[0].rails[0]
	run := a.start(t, "--duration=20s", "--alone")
	run.traffic(t)
	must.NoError(t, port.Carrier(false))
	began := time.Now()
	defer a.plug(t, port)
	run.wait(t, 4)
	t.Logf("it ended %s after the cut", time.Since(began).Round(time.Second))
	bad := a.members[0].name + "/" + railDevices[0].Name
	lines := 0
	for line := range strings.Lines(run.stdout.String()) {
		if !strings.HasPrefix(line, "Not measured: ") {
			continue
		}
		lines++
		test.StrContains(t, line, bad+": its port was down",
			test.Sprintf("%q does not say that the port of %s was down", line, bad))
	}
	test.Eq(t, 2, lines, test.Sprint("pairs were not measured"))
	test.StrContains(t, run.stdout.String(), "4 HCAs: 3 good, 0 slow, 0 unclear, 1 not measured",
		test.Sprint("not only the cut HCA is not measured"))
}

// plug has a cut link of the first node carry traffic again, and waits until the node's HCAs can be tested.
func (a acceptance) plug(t *testing.T, port *vm.Port) {
	if err := port.Carrier(true); err != nil {
		t.Error(err)
		return
	}
	a.eventually(t, "the driver publishes that the link is back", 5*time.Minute, func() error {
		devices, err := a.devices(t.Context(), a.members[0].name)
		for _, d := range devices {
			if len(d.Taints) > 0 {
				err = fmt.Errorf("device %s has the taints %v", d.Name, d.Taints)
			}
		}
		return err
	})
}

// interrupted: at random moments, from the start of the command and after the begin of its traffic, all is removed.
func (a acceptance) interrupted(t *testing.T) {
	for i := range 6 {
		run := a.start(t, "--alone", "--duration=30s") // more than a minute in all
		moment := rand.N(50 * time.Second)
		if i%2 == 1 {
			run.traffic(t)
			moment = rand.N(10 * time.Second)
		}
		time.Sleep(moment)
		must.NoError(t, run.cmd.Process.Signal([]os.Signal{os.Interrupt, syscall.SIGTERM}[i/2%2]))
		interrupted := time.Now()
		run.wait(t, 1, 4) // 1: before it measured
		t.Logf("interrupted %s after its start, it ended within %s", interrupted.Sub(run.began).Round(time.Second),
			time.Since(interrupted).Round(time.Second))
		const said = "Stopped early: interrupted"
		if run.cmd.ProcessState.ExitCode() == 3 && !strings.Contains(run.stdout.String(), said) {
			t.Error("no line says that it was interrupted")
		}
	}
}

// killed: of a killed test, Kubernetes removes all by itself, at the Job's deadline.
func (a acceptance) killed(t *testing.T) {
	run := a.start(t)
	run.traffic(t)
	must.NoError(t, run.cmd.Process.Kill())
	<-run.ended
	began := time.Now()
	if left := a.left(t); len(left) < 5 {
		t.Errorf("killed, it leaves %q, want a Job, two pods and two claims", left)
	}
	a.eventually(t, "Kubernetes removes what a killed test left", 10*time.Minute, func() error {
		if left := a.left(t); len(left) > 0 {
			return fmt.Errorf("%q is left", left)
		}
		return nil
	})
	t.Logf("all was removed %s after the kill", time.Since(began).Round(time.Second))
}

// cronJob: the Job of the example's CronJob tests both nodes from a pod, by the plugin in the image.
func (a acceptance) cronJob(t *testing.T) {
	a.kubectl(t, "label", "nodes", "--all", "example.com/rdma-test=")
	a.kubectl(t, "create", "job", "now", "-n", acceptanceNamespace, "--from=cronjob/rdma-test")
	began := time.Now()
	a.eventually(t, "the CronJob's Job ends", 20*time.Minute, func() error {
		job, err := a.client.BatchV1().Jobs(acceptanceNamespace).Get(t.Context(), "now", metav1.GetOptions{})
		if err == nil && job.Status.Succeeded+job.Status.Failed == 0 {
			err = fmt.Errorf("its status is %+v", job.Status)
		}
		return err
	})
	said := a.kubectl(t, "logs", "-n", acceptanceNamespace, "job/now")
	t.Logf("after %s the pod says\n%s", time.Since(began).Round(time.Second), said)
	test.StrContains(t, said, "4 HCAs: 4 good, 0 slow, 0 unclear, 0 not measured",
		test.Sprint("not all HCAs are good"))
	a.nothingLeft(t)
}
