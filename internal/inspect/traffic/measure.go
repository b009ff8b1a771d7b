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
	// maxSaid bounds what a pod may print, in bytes: a minute of samples is less than 5 KiB.
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
	out := Result{Pair: p}
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
	var why [2]string
	out.Gbps[0], why[0] = ends[1].received() // from A to B
	out.Gbps[1], why[1] = ends[0].received()
	out.Tool = ends[1].tool
	if len(ends[0].samples)+len(ends[1].samples) == 0 {
		// A host in shared mode hides the counters from pods with a network namespace of their own (is_full_dev in
		// drivers/infiniband/core/sysfs.c).
		if by := [2]float64{ends[0].sent(m.Duration), ends[1].sent(m.Duration)}; by[0] > 0 && by[1] > 0 {
			out.Gbps, out.ByTool = by, true
			return out
		}
	}
	for i, from := range []*model.HCA{a, b} {
		if why[i] != "" {
			out.Error = fmt.Sprintf("from %s: %s", from, why[i])
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
			parts = append(parts, h.String()+": perftest did not end"+r.stood())
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

// sample is the counters at a moment.
type sample struct {
	at     float64 // seconds since boot
	tx, rx uint64
}

// reading is what one end of a pair says.
type reading struct {
	unit    float64 // bytes of one count; 0 without counters
	samples []sample
	// exit is perftest's exit code, -1 if it did not end.
	exit int
	// tool is perftest's own rate of both directions in Gb/s, 0 for none.
	tool float64
	// messages are those that it completed between its start and its end.
	messages int64
	words    []string // lines of perftest that are no figures
	mtu      float64
	down     bool // the port was not active at some moment
}

// maxSamples is far more than a test has.
const maxSamples = 10_000

// parse reads the output of the script. It ignores what the script does not print.
func parse(output string) *reading {
	r := &reading{exit: -1}
	packets := false
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case word == "unit" && rest == "4":
			r.unit = 4
		case word == "unit" && rest == "packet":
			packets = true
		case word == "at" && len(r.samples) < maxSamples:
			r.addSample(strings.Fields(rest))
		case line == "down":
			r.down = true
		case word == "tool":
			r.addTool(rest)
		}
	}
	if packets { // the last packet of a message may be shorter, and perftest's messages are many packets
		r.unit = r.mtu
	}
	return r
}

func (r *reading) addSample(fields []string) {
	if len(fields) != 3 {
		return
	}
	at, err := strconv.ParseFloat(fields[0], 64)
	tx, err1 := strconv.ParseUint(fields[1], 10, 64)
	rx, err2 := strconv.ParseUint(fields[2], 10, 64)
	last := sample{}
	if n := len(r.samples); n > 0 {
		last = r.samples[n-1]
	}
	if err == nil && err1 == nil && err2 == nil && at > last.at && at < 1e12 {
		r.samples = append(r.samples, sample{at, tx, rx})
	}
}

// addTool reads a line of perftest:
//
//	Mtu             : 1024[B]
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
	if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "Mtu" {
		mtu, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), "[B]"))
		if err == nil && mtu > 0 && mtu <= 1<<16 {
			r.mtu = float64(mtu)
		}
		return
	}
	if len(fields) == 5 {
		if _, err := strconv.Atoi(fields[0]); err == nil {
			if rate, err := strconv.ParseFloat(fields[3], 64); err == nil && rate > 0 && rate < 1e6 {
				r.tool = rate
			}
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil && n > 0 && n < 1e12 {
				r.messages = n
			}
			return
		}
	}
	if strings.TrimSpace(line) != "" && len(r.words) < maxSamples {
		r.words = append(r.words, strings.TrimSpace(line))
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
	return text.Bound(said+r.stood(), maxError)
}

// stood says that traffic began and then stopped, which a cut cable does, "" otherwise.
func (r *reading) stood() string {
	first, last := r.busy()
	if first < 0 || len(r.samples)-1-last < 3 {
		return ""
	}
	return fmt.Sprintf("; the traffic stopped after %.0f s", r.samples[last+1].at-r.samples[first].at)
}

// busy returns the first and the last interval between samples in which traffic came, -1 for none. Single packets, as
// those that make a connection, do not count.
func (r *reading) busy() (first, last int) {
	var most uint64
	growth := make([]uint64, max(0, len(r.samples)-1))
	for i := range growth {
		if r.samples[i+1].rx > r.samples[i].rx {
			growth[i] = r.samples[i+1].rx - r.samples[i].rx
			most = max(most, growth[i])
		}
	}
	first, last = -1, -1
	for i, n := range growth {
		if n > most/20 {
			last = i
			if first < 0 {
				first = i
			}
		}
	}
	return first, last
}

// received returns the rate at which an end received, in Gb/s, or why there is none. The intervals in which the traffic
// began and ended are left out.
func (r *reading) received() (gbps float64, why string) {
	switch {
	case len(r.samples) == 0:
		return 0, "the pod does not see counters of the receiving HCA, and perftest completed no message"
	case r.unit == 0:
		return 0, "the receiving HCA counts packets, and perftest did not give their size"
	}
	first, last := r.busy()
	if first < 0 {
		return 0, "the counters of the receiving HCA stood still"
	}
	if last-first >= 2 {
		first, last = first+1, last-1
	}
	from, to := r.samples[first], r.samples[last+1]
	if to.rx <= from.rx {
		return 0, "the counters of the receiving HCA went back"
	}
	gbps = float64(to.rx-from.rx) * r.unit * 8 / 1e9 / (to.at - from.at)
	if gbps = round(gbps); gbps == 0 {
		return 0, "the receiving HCA received next to nothing"
	}
	return gbps, ""
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
