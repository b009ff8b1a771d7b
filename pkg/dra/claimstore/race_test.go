package claimstore_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// childEnv makes the test binary a process that claims what it is told to.
const childEnv = "CLAIMSTORE_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := serveClaims(dir, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveClaims reads lines "UID DEVICE..." and answers each with a line, "won" or
// the error. A device "group-x=d1,d2" has members.
func serveClaims(dir string, in io.Reader, out io.Writer) error {
	s, err := claimstore.Open(dir, thisBoot)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		answer := "won"
		if err := s.Claim(context.Background(), askedFor(types.UID(words[0]), words[1:])); err != nil {
			answer = err.Error()
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func askedFor(uid types.UID, devices []string) *plan.Plan {
	p := planOf(uid, devices...)
	for i, d := range p.Devices {
		if device, members, ok := strings.Cut(d.Device, "="); ok {
			p.Devices[i].Device, p.Devices[i].Members = device, strings.Split(members, ",")
			p.Devices[i].ShareID = &uid
		}
	}
	return p
}

// claimer is another process that claims devices.
type claimer struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func startClaimer(t *testing.T, dir string) *claimer {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must.NoError(t, err)
	out, err := cmd.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, cmd.Start())
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	return &claimer{cmd, in, bufio.NewReader(out)}
}

func (c *claimer) ask(uid types.UID, devices ...string) error {
	_, err := fmt.Fprintln(c.in, string(uid)+" "+strings.Join(devices, " "))
	return err
}

func (c *claimer) answer() (won bool, err error) {
	line, err := c.out.ReadString('\n')
	return line == "won\n", err
}

func rounds(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// TestGoroutinesOneWins: of several claims on one device that come at once,
// exactly one gets it, and the record on disk is the winner's.
func TestGoroutinesOneWins(t *testing.T) {
	s, _ := newStore(t)
	const contenders = 4
	for round := range rounds(200) {
		var wg sync.WaitGroup
		won := make([]bool, contenders)
		for i := range contenders {
			wg.Go(func() {
				uid := types.UID(fmt.Sprintf("r%d-c%d", round, i))
				// The shared devices stand in a different order in each claim, and each
				// has one of its own.
				devices := []string{"d1", "d2", fmt.Sprintf("own%d", i)}
				if i%2 == 1 {
					devices[0], devices[1] = devices[1], devices[0]
				}
				won[i] = s.Claim(context.Background(), planOf(uid, devices...)) == nil
			})
		}
		wg.Wait()
		winner := types.UID("")
		for i, w := range won {
			must.True(t, !w || winner == "", must.Sprintf("round %d: claims %v won, want exactly one", round, won))
			if w {
				winner = types.UID(fmt.Sprintf("r%d-c%d", round, i))
			}
		}
		must.NotEq(t, "", winner, must.Sprintf("round %d: no claim won", round))
		wantPlans(t, s, winner)
		must.NoError(t, s.Remove(winner))
	}
}

// TestProcessesOneWins: the same between two processes, as in a rolling update.
func TestProcessesOneWins(t *testing.T) {
	for name, devices := range map[string][2][]string{
		"exclusive":           {{"d1", "d2"}, {"d2", "d1"}},
		"exclusive and share": {{"d1"}, {"shared-d1"}},
		"exclusive and group": {{"d2", "d1"}, {"group-all=d0,d1,d3"}},
	} {
		t.Run(name, func(t *testing.T) { oneWins(t, devices) })
	}
}

func oneWins(t *testing.T, devices [2][]string) {
	s, dir := newStore(t)
	claimers := []*claimer{startClaimer(t, dir), startClaimer(t, dir)}
	wins := [2]int{}
	for round := range rounds(300) {
		uids := []types.UID{types.UID(fmt.Sprintf("r%d-p0", round)), types.UID(fmt.Sprintf("r%d-p1", round))}
		first := round % 2 // whoever is asked first has a small lead
		for _, i := range []int{first, 1 - first} {
			must.NoError(t, claimers[i].ask(uids[i], devices[i]...))
		}
		winner := -1
		for i, c := range claimers {
			won, err := c.answer()
			must.NoError(t, err)
			must.True(t, !won || winner < 0, must.Sprintf("round %d: both processes won", round))
			if won {
				winner = i
			}
		}
		must.GreaterEq(t, 0, winner, must.Sprintf("round %d: no process won", round))
		wins[winner]++
		wantPlans(t, s, uids[winner])
		must.NoError(t, s.Remove(uids[winner]))
	}
	t.Logf("wins: %v", wins)
}

// TestGroupLocksEveryMember: a claim of a group waits for the lock of each HCA in
// it, and a claim of shares of the same HCAs in another order does not deadlock
// with it.
func TestGroupLocksEveryMember(t *testing.T) {
	s, dir := newStore(t)
	for _, member := range []string{"d1", "d2", "d3"} {
		release := hold(t, dir, member)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		test.ErrorContains(t, s.Claim(ctx, groupOf("u1", "d3", "d1", "d2")), "lock device "+member,
			test.Sprintf("while %s is locked", member))
		release()
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for round := range rounds(50) {
				uid := types.UID(fmt.Sprintf("r%d-c%d", round, i))
				p := groupOf(uid, "d3", "d1", "d2")
				if i%2 == 0 {
					p = planOf(uid, "shared-d2", "shared-d3", "shared-d1")
					for j := range p.Devices {
						p.Devices[j].ShareID = &uid
					}
				}
				test.NoError(t, s.Claim(context.Background(), p), test.Sprintf("claim %s", uid))
				test.NoError(t, s.Remove(uid))
			}
		})
	}
	wg.Wait()
}

// hold takes the lock of a device as another process would, until the returned
// function is called.
func hold(t *testing.T, dir, device string) (release func()) {
	t.Helper()
	path := filepath.Join(dir, "devices", device)
	must.NoError(t, os.MkdirAll(path, 0o750))
	f, err := os.Open(path)
	must.NoError(t, err)
	must.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	return func() { f.Close() }
}

// Waiting for a lock ends with the caller's patience, and says what it waited for.
func TestLockWaitEndsWithContext(t *testing.T) {
	s, dir := newStore(t)
	release := hold(t, dir, "d2")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Claim(ctx, planOf("u1", "d1", "d2")) }()
	cancel()
	err := <-done
	for _, part := range []string{"claim team-a/claim-u1: lock device d2",
		"another claim is being prepared on it", "context canceled"} {
		test.ErrorContains(t, err, part)
	}
	wantPlans(t, s)
	claim(t, s, planOf("u2", "d1")) // the lock of d1 was released
	release()
	claim(t, s, planOf("u3", "d2"))
}

// Whoever waits gets the lock when it is free.
func TestLockWaitGetsTheLock(t *testing.T) {
	s, dir := newStore(t)
	release := hold(t, dir, "d1")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Claim(ctx, planOf("u1", "d1")) }()
	select {
	case err := <-done:
		t.Fatalf("claimed a locked device: %v", err)
	default:
	}
	release()
	must.NoError(t, <-done)
}

// A dead process holds no lock and, before its record was written, no device.
func TestKilledProcessHoldsNothing(t *testing.T) {
	s, dir := newStore(t)
	for round := range rounds(50) {
		c := startClaimer(t, dir)
		uid := types.UID(fmt.Sprintf("killed%d", round))
		must.NoError(t, c.ask(uid, "d1"))
		if round%2 == 0 {
			won, err := c.answer()
			must.True(t, won && err == nil, must.Sprintf("round %d: %v, %v", round, won, err))
		}
		must.NoError(t, c.cmd.Process.Kill())
		_, _ = c.cmd.Process.Wait()
		recorded, err := s.Get(uid)
		must.NoError(t, err, must.Sprintf("round %d: a half written record", round))
		must.True(t, recorded != nil || round%2 != 0,
			must.Sprintf("round %d: a claim that was answered is lost", round))
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err = s.Claim(ctx, planOf("next", "d1"))
		cancel()
		must.Eq(t, (recorded == nil), (err == nil),
			must.Sprintf("round %d: recorded %v, and the next claim gets %v", round, recorded != nil, err))
		for _, u := range []types.UID{uid, "next"} {
			must.NoError(t, s.Remove(u))
		}
	}
}

// TestCrashSteps stops Claim after each of its steps, by leaving on disk what the
// steps before leave. The same claim can always be made again; another one gets
// the device unless the record was written.
func TestCrashSteps(t *testing.T) {
	steps := []struct {
		name string
		do   func(t *testing.T, s *claimstore.Store, dir string)
	}{
		{"nothing done", func(*testing.T, *claimstore.Store, string) {}},
		{"first device directory made", func(t *testing.T, _ *claimstore.Store, dir string) { mkdir(t, dir, "d1") }},
		{"all device directories made", func(t *testing.T, _ *claimstore.Store,
			dir string) {
			mkdir(t, dir, "d1")
			mkdir(t, dir, "d2")
		}},
		{"name at the first device", func(t *testing.T, _ *claimstore.Store, dir string) {
			write(t, "", dir, "devices", "d1", "u1")
			mkdir(t, dir, "d2")
		}},
		{"name at all devices", func(t *testing.T, _ *claimstore.Store, dir string) { names(t, dir) }},
		{"temporary file empty", func(t *testing.T, _ *claimstore.Store, dir string) {
			names(t, dir)
			write(t, "", dir, "claims", ".rdma.dev-1.tmp")
		}},
		{"temporary file cut", func(t *testing.T, _ *claimstore.Store, dir string) {
			names(t, dir)
			write(t, `{"version":1,"bo`, dir, "claims", ".rdma.dev-1.tmp")
		}},
		{"record written", func(t *testing.T, s *claimstore.Store, _ string) { claim(t, s, planOf("u1", "d1", "d2")) }},
	}
	for i, step := range steps {
		written := i == len(steps)-1
		t.Run(step.name, func(t *testing.T) {
			s, dir := newStore(t)
			step.do(t, s, dir)
			err := s.Claim(context.Background(), planOf("u2", "d2"))
			test.Eq(t, written, (err != nil), test.Sprintf("another claim after the crash: %v", err))
			must.NoError(t, s.Remove("u2"))
			claim(t, s, planOf("u1", "d1", "d2"))
			wantPlans(t, s, "u1")
			test.Error(t, s.Claim(context.Background(), planOf("u2", "d1")),
				test.Sprint("the claim made again does not protect its device"))
		})
	}
}

func mkdir(t *testing.T, dir, device string) {
	t.Helper()
	must.NoError(t, os.MkdirAll(filepath.Join(dir, "devices", device), 0o750))
}

func names(t *testing.T, dir string) {
	t.Helper()
	write(t, "", dir, "devices", "d1", "u1")
	write(t, "", dir, "devices", "d2", "u1")
}
