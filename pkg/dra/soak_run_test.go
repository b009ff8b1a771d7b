package dra_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/drivertest/apifault"
	"github.com/rdma-dev/dra-driver-rdma/internal/drivertest/invariants"
)

// soak is a node whose driver lives through trouble of all kinds, one step after the
// other. The seed decides about the steps; only the moment of a kill within a call is
// left to the machine.
type soak struct {
	*drivertest.Node
	model
	t       *testing.T
	random  *rand.Rand
	host    *hardware
	proxy   *apifault.Proxy
	flags   []string
	trouble *trouble // with the API server, nil for none
	driver  *program
	pod     int // the driver's pod: a rolling update makes another
	steps   []string

	launches  int // how many drivers were started
	published int // the last one whose slices were right
}

// trouble is a lasting fault of the API server.
type trouble struct {
	apiFault
	shot *apifault.Shot
}

// soakPolicy shares the last three HCAs of the machine, and waits for nothing.
const soakPolicy = `apiVersion: rdma.dev/v1alpha1
kind: DriverConfig
health: {downAfter: 10ms, upAfter: 20ms}
publishInterval: 20ms
rules:
- name: storage
  selectors: [{cel: {expression: 'device.attributes["resource.kubernetes.io"].pciBusID in [%s]'}}]
  publish: shared
  shares: 4
`

// TestSoak takes a seed from SOAK_SEED, and the number of steps from SOAK_STEPS. With
// TEST_LONG it runs for ten minutes.
func TestSoak(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SOAK_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("SOAK_SEED: %v", err)
		}
	}
	t.Logf("SOAK_SEED=%d repeats this run", seed)
	s := newSoak(t, seed)
	count, spent := map[string]int{}, map[string]time.Duration{}
	taken := 0
	for more := soakLength(t); more(taken) && !t.Failed(); taken++ {
		began := time.Now()
		name := s.step()
		count[name]++
		spent[name] += time.Since(began)
	}
	for name, n := range count {
		t.Logf("%4d %s, %v each", n, name, (spent[name] / time.Duration(n)).Round(time.Millisecond))
	}
	t.Logf("%d steps", taken)
	if !t.Failed() {
		s.checkLeaks()
	}
}

// soakLength returns whether another step follows.
func soakLength(t *testing.T) func(steps int) bool {
	if text := os.Getenv("SOAK_STEPS"); text != "" {
		most, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("SOAK_STEPS: %v", err)
		}
		return func(steps int) bool { return steps < most }
	}
	length := 20 * time.Second
	if os.Getenv("TEST_LONG") != "" {
		length = 10 * time.Minute
	}
	began := time.Now()
	return func(int) bool { return time.Since(began) < length }
}

func newSoak(t *testing.T, seed uint64) *soak {
	s := &soak{Node: drivertest.NewNode(t, soakMachine), t: t, random: rand.New(rand.NewPCG(seed, 0)), host: newHardware(t)}
	s.proxy = apifault.New(t, s.Config().Host)
	var addresses []string
	for i, c := range s.host.cards {
		if shared(i) {
			addresses = append(addresses, strconv.Quote(c.address))
		}
	}
	policy := filepath.Join(drivertest.TempDir(t), "config.yaml")
	if err := os.WriteFile(policy, fmt.Appendf(nil, soakPolicy, strings.Join(addresses, ", ")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.flags = []string{"--kubeconfig", s.proxy.Kubeconfig(t), "--config", policy}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last steps of seed %d:\n%s", seed, strings.Join(s.steps[max(0, len(s.steps)-30):], "\n"))
			t.Logf("the driver said:\n%s", s.driver.output.String())
		}
	})
	s.launch()
	s.atRest()
	return s
}

// launch starts the driver of the present pod, and waits until the kubelet has
// registered it.
func (s *soak) launch() *program {
	s.t.Helper()
	have := len(s.Sockets())
	args := append(s.Args(s.t, fmt.Sprintf("%08d-0000-4000-8000-000000000000", s.pod)), s.flags...)
	p := &program{cmd: exec.Command(drivertest.Binary(s.t), args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the state has it all
		close(p.ended)
	}()
	s.t.Cleanup(p.kill)
	s.driver = p
	s.launches++
	s.WaitForPlugins(have + 1)
	return p
}

// kill kills the driver, and makes the kubelet notice.
func (s *soak) kill() {
	s.driver.kill()
	s.Disconnect()
}

// note writes down what a step does.
func (s *soak) note(format string, args ...any) {
	s.steps = append(s.steps, fmt.Sprintf("%d "+format, append([]any{len(s.steps)}, args...)...))
}

// step takes a step, and checks what must hold after it.
func (s *soak) step() string {
	s.t.Helper()
	total := 0
	for _, k := range soakSteps {
		total += k.weight
	}
	at := s.random.IntN(total)
	for _, k := range soakSteps {
		if at -= k.weight; at >= 0 {
			continue
		}
		before, host := len(s.steps), s.host.changes
		k.do(s)
		if len(s.steps) == before {
			s.note("%s: nothing to do", k.name)
		}
		// Nothing keeps a spec right in the moment between a change of the kernel's names
		// and the driver's hearing of it.
		if err := invariants.Always(s.Node); err != nil && s.host.changes == host {
			s.t.Errorf("after step %s: %v", s.steps[len(s.steps)-1], err)
		}
		s.atRest()
		return k.name
	}
	panic("the weights do not add up")
}

// atRest waits until records, specs and slices are what they must be. A change that
// nobody announced, and a slice that somebody removed, take half a minute.
func (s *soak) atRest() {
	s.t.Helper()
	began := time.Now()
	for {
		err := invariants.AtRest(s.Node, s.known())
		if err == nil && s.trouble == nil {
			if err = s.offered(s.host, s.launches, s.Slices()); err == nil {
				s.published = s.launches
				err = s.healthy()
			}
		}
		if err == nil {
			return
		}
		if s.driver.hasEnded() {
			s.t.Fatalf("the driver ended by itself: %s", s.driver.output.String())
		}
		if time.Since(began) > 2*patience {
			s.t.Fatalf("after %v: %v", time.Since(began), err)
		}
		time.Sleep(2 * time.Millisecond) // between two looks at the condition
	}
}

// healthy checks what the kubelet hears of health. A stream begins with the present state.
func (s *soak) healthy() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	report, err := s.Health(ctx)
	if err != nil {
		return fmt.Errorf("hear of health: %w", err)
	}
	return told(s.host, report)
}

// ask asks for claims in one call each, as a kubelet does for pods that start at the
// same time, and writes down the answers.
func (s *soak) ask(ctx context.Context, i int, a *allocation) error {
	response, err := s.PrepareAt(ctx, i, a.claim)
	if err != nil {
		return err
	}
	ids, err := drivertest.Devices(response, a.claim)
	if err != nil {
		return err
	}
	if a.prepared && strings.Join(ids, " ") != strings.Join(a.ids, " ") {
		return fmt.Errorf("%w: IDs are %v, and were %v", errChanged, ids, a.ids)
	}
	a.prepared, a.ids = true, ids
	return nil
}

var errChanged = errors.New("another answer")
