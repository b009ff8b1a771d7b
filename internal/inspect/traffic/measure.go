package traffic

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

//go:embed script.sh
var script string

// Exec runs a command in the pod of a node, and writes its standard output as it comes. It returns an error if the
// command cannot be run, or fails.
type Exec func(ctx context.Context, node string, argv []string, stdout io.Writer) error

// Measure measures pairs of HCAs.
type Measure struct {
	HCAs []model.HCA
	// Addresses are those of the nodes' pods, for the connections by TCP that perftest begins with.
	Addresses map[string]string
	Exec      Exec
	// Duration is how long the traffic of a pair takes.
	Duration time.Duration
}

const (
	// firstPort is the TCP port of the first pair of a stage. 18515 is the default of perftest.
	firstPort = 18515
	// patience is how much longer than its traffic a pair may take: on a busy node, kubelet and container runtime take
	// tens of seconds to start each of its ends. The script gives up earlier.
	patience = 2 * time.Minute
	// maxSaid bounds what a pod may print, in bytes. perftest prints less than 5 KiB.
	maxSaid = 1 << 20
	// maxError bounds what is repeated of a pod's words.
	maxError = 240
	portDown = "its port was down"
)

// Stage measures the pairs of a stage at once. It returns one result for each pair, also after an interruption.
func (m *Measure) Stage(ctx context.Context, s Stage) []Result {
	out := make([]Result, len(s.Pairs))
	var all sync.WaitGroup
	for i, p := range s.Pairs {
		all.Go(func() {
			out[i] = m.pair(ctx, p, firstPort+i)
			out[i].Together = s.Together
		})
	}
	all.Wait()
	return out
}

// pair measures a pair: it starts the server in A's pod, waits until it listens, and starts the client in B's pod.
func (m *Measure) pair(ctx context.Context, p Pair, port int) Result {
	out := Result{Pair: p, A: m.HCAs[p.A].String(), B: m.HCAs[p.B].String()}
	ctx, cancel := context.WithTimeout(ctx, m.Duration+patience)
	defer cancel()
	a, b := &m.HCAs[p.A], &m.HCAs[p.B]
	server, client := newSaid(), newSaid()
	ended := make(chan struct{})
	var serverErr, clientErr error
	go func() {
		defer close(ended)
		serverErr = m.Exec(ctx, a.Node, m.command("server", a, port, ""), server)
	}()
	if server.listensBefore(ended) {
		clientErr = m.Exec(ctx, b.Node, m.command("client", b, port, m.Addresses[a.Node]), client)
	}
	<-ended
	if ctx.Err() != nil {
		out.Error = "interrupted"
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			out.Error = fmt.Sprintf("no end within %s: %s", m.Longest(), unfinished(a, b, server, client))
		}
		return out
	}
	ends := [2]*reading{server.read(), client.read()}
	out.Error = trouble(a, b, ends, serverErr, clientErr)
	if out.Error != "" {
		return out
	}
	out.AToB, out.BToA = ends[0].sent(m.Duration), ends[1].sent(m.Duration)
	for i, h := range []*model.HCA{a, b} {
		if ends[i].messages == 0 {
			out.Error = fmt.Sprintf("from %s: perftest completed no message", h)
		}
	}
	return out
}

func (m *Measure) command(role string, h *model.HCA, port int, server string) []string {
	return []string{
		"sh", "-c", script, "sh", role, h.IBDev, "1", strconv.Itoa(port), strconv.Itoa(int(m.Duration.Seconds())), server,
	}
}

// trouble says why a pair has no figures, "" if both ends did what they should. A client fails for its server's
// reasons, so the server comes first, unless it only lost its client. A port that was down says more than what perftest
// makes of it: the figures before and after are no rate of the HCA.
func trouble(a, b *model.HCA, ends [2]*reading, serverErr, clientErr error) string {
	var parts []string
	for i, h := range []*model.HCA{a, b} {
		err := []error{serverErr, clientErr}[i]
		switch {
		case err != nil:
			parts = append(parts, h.String()+": "+text.Bound(err.Error(), maxError))
		case ends[i].down:
			parts = append(parts, h.String()+": "+portDown)
		case ends[i].exit > 0:
			parts = append(parts, h.String()+": "+ends[i].complaint())
		case ends[i].exit < 0 && (i == 0 || ends[0].exit == 0):
			parts = append(parts, h.String()+": it did not end")
		}
	}
	return strings.Join(parts, "; ")
}

// unfinished says how far a pair came that did not end.
func unfinished(a, b *model.HCA, server, client *said) string {
	if !server.listened() {
		return a.String() + " did not listen"
	}
	var parts []string
	for i, end := range []*said{server, client} {
		switch r, h := end.read(), []*model.HCA{a, b}[i]; {
		case r.down:
			parts = append(parts, h.String()+": "+portDown)
		case r.exit < 0:
			parts = append(parts, h.String()+": perftest did not end")
		}
	}
	if parts == nil {
		return "perftest ended too late"
	}
	return strings.Join(parts, "; ")
}

// said is what a pod prints, bounded.
type said struct {
	mu        sync.Mutex
	text      bytes.Buffer
	listening chan struct{}
	listens   bool
}

func newSaid() *said { return &said{listening: make(chan struct{})} }

// Write keeps what fits, and drops the rest.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := min(len(p), maxSaid-s.text.Len())
	s.text.Write(p[:room])
	if room > 0 && !s.listens && bytes.Contains(s.text.Bytes(), []byte("listening\n")) {
		s.listens = true
		close(s.listening)
	}
	return len(p), nil
}

// listensBefore waits until the server listens or has ended, and returns whether it has listened. If that server has
// ended since, the client says more about it.
func (s *said) listensBefore(ended <-chan struct{}) bool {
	select {
	case <-ended:
	case <-s.listening:
	}
	return s.listened()
}

// listened says whether the server has said that it listens.
func (s *said) listened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listens
}

func (s *said) read() *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return parse(s.text.String())
}

// reading is what one end of a pair says.
type reading struct {
	// exit is perftest's exit code, -1 if it did not end.
	exit int
	// messages are those that it completed between its start and its end.
	messages int64
	words    []string // lines of perftest that are no figures
	down     bool     // the port was not active at some moment
}

// maxWords is far more than perftest has.
const maxWords = 10_000

// parse reads the output of the script. It ignores what the script does not print.
func parse(output string) *reading {
	r := &reading{exit: -1}
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		if line == "down" {
			r.down = true
		} else if said, ok := strings.CutPrefix(line, "tool "); ok {
			r.addTool(said)
		}
	}
	return r
}

// addTool reads a line of perftest:
//
//	65536      1000             0.00               1.23               0.002346
//
// which are bytes, iterations, peak, average in Gb/s, and messages.
func (r *reading) addTool(line string) {
	fields := strings.Fields(line)
	if len(fields) == 2 && fields[0] == "exit" {
		if code, err := strconv.Atoi(fields[1]); err == nil {
			r.exit = code
		}
		return
	}
	if len(fields) == 5 {
		if _, err := strconv.Atoi(fields[0]); err == nil {
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil && n > 0 && n < 1e12 {
				r.messages = n
			}
			return
		}
	}
	if line = strings.TrimSpace(line); line != "" && len(r.words) < maxWords {
		r.words = append(r.words, line)
	}
}

// complaint is the line of perftest that says most about its failure.
func (r *reading) complaint() string {
	said := fmt.Sprintf("perftest failed with the exit code %d", r.exit)
	if r.exit == 124 || r.exit == 143 { // of timeout: GNU's, BusyBox's
		said = "perftest did not end in time"
	}
	last := ""
	for _, line := range r.words {
		lower := strings.ToLower(line)
		for _, word := range []string{"error", "fail", "couldn't", "unable", "not found", "no gid", "no rdma", "syndrom"} {
			if strings.Contains(lower, word) {
				last = line
			}
		}
	}
	if last != "" {
		said += ": " + last
	}
	return text.Bound(said, maxError)
}

// messageSize is that of the script's messages, in bytes.
const messageSize = 65536

// sent returns the rate of the messages that perftest completed, in Gb/s, 0 for none. The other HCA has acknowledged
// them. perftest counts between two alarms of the kernel, a fourth of its whole seconds after the start and before the
// end, so this does not depend on its clock.
func (r *reading) sent(of time.Duration) float64 {
	seconds := int(of.Seconds())
	return round(float64(r.messages) * messageSize * 8 / 1e9 / float64(seconds-2*(seconds/4)))
}

// Longest is the most that a stage takes.
func (m *Measure) Longest() time.Duration { return m.Duration + patience }
