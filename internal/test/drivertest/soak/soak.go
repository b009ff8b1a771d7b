package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/apifault"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/invariants"
)

// patience is how long a condition may take on a busy machine. What nobody announced, the
// driver finds within as much.
const patience = 30 * time.Second

// soak is a node whose driver lives through trouble, one step after the other.
type soak struct {
	*drivertest.Worker
	Server
	model
	t       *testing.T
	seed    uint64
	random  *rand.Rand // of the present step
	host    *hardware
	proxy   *apifault.Proxy // between driver and server
	file    string          // of the driver's configuration
	pod     pod
	trouble *trouble // with the API server, nil for none
	driver  *drivertest.Process
	notes   []string // what was done
	taken   int      // steps
	faults  map[string]int

	launches  int // how many drivers were started
	published int // the last one whose slices were right
}

// pod is the driver's pod: a rolling update makes another.
type pod struct{ uid, kubeconfig string }

// trouble is a lasting fault of the API server.
type trouble struct {
	kind
	shot *apifault.Shot
}

// policy shares the last three HCAs of the machine, and waits for nothing.
const policy = `apiVersion: rdma.dev/v1alpha1
kind: DriverConfig
health: {downAfter: 10ms, upAfter: 20ms}
publishInterval: 20ms
rules:
- name: storage
  selectors: [{cel: {expression: 'device.attributes["resource.kubernetes.io"].pciBusID in [%s]'}}]
  publish: shared
  shares: 4
`

// Run runs a driver as a program on a node of a server, for so long; ten minutes with
// TEST_LONG. It takes a seed from SOAK_SEED, and the number of steps from SOAK_STEPS.
func Run(t *testing.T, server Server, length time.Duration) {
	t.Helper()
	seed := drivertest.Seed(t, "SOAK_SEED")
	s := start(t, server, seed)
	began := time.Now()
	count, spent := map[string]int{}, map[string]time.Duration{}
	for more := until(t, length); more(s.taken) && !t.Failed(); {
		stepped := time.Now()
		name := s.step()
		count[name]++
		spent[name] += time.Since(stepped)
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		t.Logf("%4d %s, %v each", count[name], name, (spent[name] / time.Duration(count[name])).Round(time.Millisecond))
	}
	s.troubleEnds()
	t.Logf("%d steps in %v with %s", s.taken, time.Since(began).Round(time.Second), s.tally())
	if !t.Failed() {
		began = time.Now()
		s.checkLeaks()
		t.Logf("looked for leaks in %v", time.Since(began).Round(time.Second))
	}
}

// until returns whether another step follows.
func until(t *testing.T, length time.Duration) func(steps int) bool {
	if text := os.Getenv("SOAK_STEPS"); text != "" {
		most, err := strconv.Atoi(text)
		must.NoError(t, err, must.Sprint("SOAK_STEPS"))
		return func(steps int) bool { return steps < most }
	}
	if os.Getenv("TEST_LONG") != "" {
		length = 10 * time.Minute
	}
	began := time.Now()
	return func(int) bool { return time.Since(began) < length }
}

func start(t *testing.T, server Server, seed uint64) *soak {
	t.Helper()
	s := &soak{
		Worker: drivertest.NewWorker(t, machine), Server: server, t: t, seed: seed, host: newHardware(t),
		proxy: apifault.New(t, server.Config()), faults: map[string]int{},
		file: filepath.Join(drivertest.TempDir(t), "config.yaml"),
	}
	var addresses []string
	for i, c := range s.host.cards {
		if shared(i) {
			addresses = append(addresses, strconv.Quote(c.address))
		}
	}
	must.NoError(t, os.WriteFile(s.file, fmt.Appendf(nil, policy, strings.Join(addresses, ", ")), 0o600))
	t.Cleanup(func() {
		if t.Failed() {
			s.explain()
		}
	})
	s.newPod()
	s.launch()
	s.atRest()
	return s
}

// explain says how to repeat a run that failed, what was done, and what the driver said.
func (s *soak) explain() {
	s.t.Logf("to repeat this:\n"+
		"SOAK_SEED=%d SOAK_STEPS=%d go -C test/cluster test ./soak -run 'TestSoak$'", s.seed, s.taken)
	s.t.Logf("what was done:\n%s", strings.Join(s.notes, "\n"))
	if s.driver != nil {
		s.t.Logf("the driver said:\n%s", s.driver.Output())
	}
}

// newPod makes the pod of the drivers that are launched from now on.
func (s *soak) newPod() {
	s.t.Helper()
	uid, token := s.NewPod()
	s.AddPodCgroup(s.t, uid)
	s.pod = pod{uid, s.proxy.Kubeconfig(s.t, token)}
}

// launch starts the driver of the present pod, and waits until the kubelet has
// registered it.
func (s *soak) launch() {
	s.t.Helper()
	have := len(s.Sockets())
	flags := append(s.Flags(s.pod.uid), "--kubeconfig", s.pod.kubeconfig, "--config", s.file)
	s.driver = drivertest.Launch(s.t, append([]string{drivertest.Binary(s.t)}, flags...)...)
	s.launches++
	s.WaitForPlugins(have + 1)
}

// kill kills the driver, and makes the kubelet notice.
func (s *soak) kill() {
	s.fault("kills of the driver", 1)
	s.driver.Kill()
	s.Disconnect()
}

// note writes down what a step does.
func (s *soak) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf("%d "+format, append([]any{s.taken}, args...)...))
}

// fault counts faults.
func (s *soak) fault(kind string, n int) { s.faults[kind] += n }

// tally says how many faults there were of each kind.
func (s *soak) tally() string {
	total := 0
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(s.faults)) {
		total += s.faults[kind]
		kinds = append(kinds, fmt.Sprintf("%d %s", s.faults[kind], kind))
	}
	return fmt.Sprintf("%d faults: %s", total, strings.Join(kinds, ", "))
}

// step takes a step, and checks what must hold after it. What went before has no part in
// what the seed says of it.
func (s *soak) step() string {
	s.t.Helper()
	s.taken++
	s.random = rand.New(rand.NewPCG(s.seed, uint64(s.taken)))
	k := choose(s.random)
	before, host := len(s.notes), s.host.changes
	k.do(s)
	if len(s.notes) == before {
		s.note("%s: nothing to do", k.name)
	}
	// Nothing keeps a spec right in the moment between a change of the kernel's names
	// and the driver's hearing of it.
	if err := invariants.Always(s.Worker); err != nil && s.host.changes == host {
		s.t.Errorf("after step %s: %v", s.notes[len(s.notes)-1], err)
	}
	s.atRest()
	return k.name
}

// atRest waits until records, specs and slices are what they must be. A change that
// nobody announced, and a slice that somebody removed, take half a minute.
func (s *soak) atRest() {
	s.t.Helper()
	s.listPods()
	err := drivertest.Await(2*patience, func() error {
		must.False(s.t, s.driver.HasEnded(), must.Sprintf("the driver ended by itself: %s", s.driver.Output()))
		return s.wrong()
	})
	must.NoError(s.t, err, must.Sprintf("after %v", 2*patience))
}

// wrong returns what is not as it must be. While the API server is in trouble, nobody knows
// what it has.
func (s *soak) wrong() error {
	if err := invariants.AtRest(s.Worker, s.known()); err != nil || s.trouble != nil {
		return err
	}
	if err := s.offered(s.host, s.launches, s.Slices()); err != nil {
		return err
	}
	s.published = s.launches
	return s.healthy()
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

// listPods has the kubelet list the pods of all claims that are prepared.
func (s *soak) listPods() { s.SetPods(nil, s.known().Prepared...) }
