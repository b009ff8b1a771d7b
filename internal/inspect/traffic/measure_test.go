package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// printed is what the script prints: the counters at seconds 10, 11, ..., and then perftest's words.
func printed(unit string, received []int, tool ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "unit %s\nlistening\n", unit)
	for i, n := range received {
		fmt.Fprintf(&b, "at %d.50 0 %d\n", 10+i, n)
	}
	for _, line := range tool {
		fmt.Fprintln(&b, "tool", line)
	}
	return b.String()
}

const (
	mtuLine  = " Mtu             : 1024[B]"
	rateLine = " 65536      12345            0.00               780.12   		   0.744"
)

func TestReceived(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		gbps       float64
		why        string
	}{
		{"words, without the first and the last interval", printed("4", []int{0, 100, 1100, 251100, 501100, 501200, 501200}), 8 * 4 * 250e3 / 1e9, ""},
		{"a single interval", printed("4", []int{7, 7, 250e6 + 7, 250e6 + 7}), 8, ""},
		{"packets", printed("packet", []int{0, 1e6, 2e6, 3e6}, mtuLine), 8.192, ""},
		{"packets of unknown size", printed("packet", []int{0, 1e6, 2e6, 3e6}), 0, "counts packets"},
		{"nothing came", printed("4", []int{5, 5, 5, 5}), 0, "stood still"},
		{"no counters", "unit none\ntool exit 0\n", 0, "does not see counters"},
		{"nothing", "", 0, "does not see counters"},
		{"a clock that goes back", "unit 4\nat 10 0 0\nat 9 0 100\nat 11 0 250000000\n", 8, ""},
		{"garbage", "unit 4\nat x 0 0\nat 1 2\nat 10 0 0\nat 1e400 0 7\nat 11 0 -3\nat 11 0 250000000\n\x1b[2J\n", 8, ""},
	} {
		r := parse(tc.text)
		if gbps, why := r.received(); gbps != tc.gbps || !strings.Contains(why, tc.why) || (why == "") != (tc.why == "") {
			t.Errorf("%s: %v Gb/s, %q; want %v, %q", tc.name, gbps, why, tc.gbps, tc.why)
		}
	}
}

func TestReading(t *testing.T) {
	r := parse(printed("4", nil, mtuLine, rateLine, "exit 0"))
	if r.exit != 0 || r.tool != 780.12 || r.mtu != 1024 {
		t.Errorf("%+v", r)
	}
	for text, want := range map[string]string{
		printed("4", []int{0, 9000, 18000, 27000, 27000, 27000, 27000, 27000}, " ib_write_bw: version", " Completion with error at client",
			" Failed status 12: wr_id 0 syndrom 0x81", "scnt=128, ccnt=0", "exit 1"): "perftest failed with the exit code 1: Failed status 12: wr_id 0 syndrom 0x81; the traffic stopped after 3 s",
		printed("4", nil, "exit 124"):                   "perftest did not end in time",
		printed("4", nil, "exit 1"):                     "perftest failed with the exit code 1",
		printed("4", nil, "Couldn't connect", "exit 1"): "perftest failed with the exit code 1: Couldn't connect",
	} {
		test.Eq(t, want, parse(text).complaint())
	}
}

// FuzzParse: whatever a pod prints, figures are finite and bounded, and words are bounded.
func FuzzParse(f *testing.F) {
	f.Add(printed("4", []int{0, 1, 2, 3}, mtuLine, rateLine, "exit 1", "error"))
	f.Add(printed("packet", []int{0, 18446744073709551, 2, 3}, mtuLine, "exit 124"))
	f.Fuzz(func(t *testing.T, output string) {
		r := parse(output)
		gbps, why := r.received()
		if !(gbps >= 0) || gbps > 1e19 || (gbps > 0) != (why == "") {
			t.Errorf("%v Gb/s, %q", gbps, why)
		}
		if said := r.complaint(); len(said) > maxError+64 || strings.ContainsAny(said, "\n\x1b") {
			t.Errorf("%q", said)
		}
	})
}

// pods runs commands of a test's pods as a function of the node and the role.
func pods(run func(ctx context.Context, node, role string, stdout io.Writer) error) Exec {
	return func(ctx context.Context, node string, argv []string, stdout io.Writer) error {
		return run(ctx, node, argv[4], stdout)
	}
}

// TestPair: the client starts when the server listens, and each way to fail is a text.
func TestPair(t *testing.T) {
	good := printed("4", []int{0, 100, 250e6, 500e6, 750e6, 750e6}, rateLine, "exit 0")
	for _, tc := range []struct {
		name string
		run  func(ctx context.Context, node, role string, stdout io.Writer) error
		want string // the error
	}{
		{"good", func(_ context.Context, _, _ string, stdout io.Writer) error {
			_, err := io.WriteString(stdout, good)
			return err
		}, ""},
		{"the server's pod is gone", func(_ context.Context, _, role string, stdout io.Writer) error {
			if role == "server" {
				return errors.New("pods \"x\" not found")
			}
			t.Error("a client runs without its server")
			return nil
		}, "n0/mlx5_0: pods \"x\" not found"},
		{"the server has no device", func(_ context.Context, _, role string, stdout io.Writer) error {
			_, err := io.WriteString(stdout, "tool the pod has no RDMA device mlx5_0 with a port 1\ntool exit 1\n")
			return err
		}, "n0/mlx5_0: perftest failed with the exit code 1: the pod has no RDMA device mlx5_0 with a port 1"},
		{"a cable is cut", func(_ context.Context, _, role string, stdout io.Writer) error {
			_, err := io.WriteString(stdout, printed("4", []int{0, 9, 18, 27, 27, 27, 27, 27}, "Failed status 12", "exit 1"))
			return err
		}, "n0/mlx5_0: perftest failed with the exit code 1: Failed status 12; the traffic stopped after 3 s; n1/mlx5_0: "},
		{"it takes a minute to start each end", func(_ context.Context, _, role string, stdout io.Writer) error {
			time.Sleep(50 * time.Second)
			before, after, _ := strings.Cut(good, "listening\n")
			_, err := io.WriteString(stdout, before+"listening\n")
			if role == "server" {
				time.Sleep(time.Minute)
			}
			_, err2 := io.WriteString(stdout, after)
			return errors.Join(err, err2)
		}, ""},
		{"nothing answers", func(ctx context.Context, _, _ string, _ io.Writer) error {
			<-ctx.Done()
			return ctx.Err()
		}, "no end within 2m10s: n0/mlx5_0 did not listen"},
		{"the server hangs", func(ctx context.Context, _, role string, stdout io.Writer) error {
			_, _ = io.WriteString(stdout, "unit 4\nlistening\n")
			if role == "server" {
				<-ctx.Done()
			}
			return ctx.Err()
		}, "no end within 2m10s: n0/mlx5_0: perftest did not end; n1/mlx5_0: perftest did not end"},
		{"traffic stops for good", func(ctx context.Context, _, role string, stdout io.Writer) error {
			_, _ = io.WriteString(stdout, printed("4", []int{0, 9, 18, 27, 27, 27, 27, 27}))
			<-ctx.Done()
			return ctx.Err()
		}, "no end within 2m10s: n0/mlx5_0: perftest did not end; the traffic stopped after 3 s; n1/mlx5_0: "},
		{"perftest ends as usual after its port was down", func(_ context.Context, _, role string, stdout io.Writer) error {
			said := printed("none", nil, rateLine, "exit 0")
			if role == "client" {
				said = "down\n" + said
			}
			_, err := io.WriteString(stdout, said)
			return err
		}, "n1/mlx5_0: its port was down"},
		{"a port goes down for good", func(ctx context.Context, _, role string, stdout io.Writer) error {
			_, _ = io.WriteString(stdout, printed("none", nil)+"down\n"+"down\n")
			<-ctx.Done()
			return ctx.Err()
		}, "no end within 2m10s: n0/mlx5_0: its port was down; n1/mlx5_0: its port was down"},
		{"the counters stand still", func(_ context.Context, _, _ string, stdout io.Writer) error {
			_, err := io.WriteString(stdout, printed("4", []int{1, 1, 1}, "exit 0"))
			return err
		}, "from n1/mlx5_0: the counters of the receiving HCA stood still"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &Measure{HCAs: machines(2, 1, true), Exec: pods(tc.run), Duration: 10 * time.Second,
					Addresses: map[string]string{"n0": "10.0.0.1", "n1": "10.0.0.2"}}
				got := m.Stage(t.Context(), Stage{Together: true, Pairs: []Pair{{0, 1}}})[0]
				if tc.want == "" && (got.Error != "" || got.Gbps != [2]float64{8, 8} || got.Tool != 780.12 || !got.Together) {
					t.Errorf("%+v", got)
				}
				failed := strings.HasPrefix(got.Error, tc.want) && got.Gbps == [2]float64{}
				if tc.want != "" && !failed && !strings.Contains(got.Error, "stood still") {
					t.Errorf("%q, want %q", got.Error, tc.want)
				}
			})
		})
	}
}

// TestHiddenCounters: for a pod that does not see the HCA's counters, the rate of each direction is that of its
// sender's completed messages, without the first and the last fourth of the time. The result says so. Without messages
// the pair is not measured, whatever rate perftest names.
func TestHiddenCounters(t *testing.T) {
	line := func(messages int) string { return fmt.Sprintf(" 65536  %d  0.00  0.00  0.000", messages) }
	for _, tc := range []struct {
		server, client string
		want           [2]float64
	}{
		{line(12345), line(1234), [2]float64{1.079, 0.108}}, // 12345 * 65536 * 8 bits in 6 s
		{line(12345), line(0), [2]float64{}},
		{"", "", [2]float64{}},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &Measure{
				HCAs: machines(2, 1, true), Duration: 10 * time.Second,
				Exec: pods(func(_ context.Context, _, role string, stdout io.Writer) error {
					tool := map[string]string{"server": tc.server, "client": tc.client}[role]
					_, err := io.WriteString(stdout, printed("none", nil, tool, "exit 0"))
					return err
				}),
			}
			got := m.Stage(t.Context(), Stage{Pairs: []Pair{{0, 1}}})[0]
			measured := tc.want != [2]float64{}
			if got.Gbps != tc.want || got.ByTool != measured || (got.Error == "") != measured {
				t.Errorf("%+v, want %v", got, tc.want)
			}
		})
	}
}

// TestInterrupted: a stage ends with its context, and says so.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		m := &Measure{HCAs: machines(2, 1, true), Duration: time.Minute, Exec: pods(
			func(ctx context.Context, _, _ string, _ io.Writer) error { <-ctx.Done(); return ctx.Err() })}
		if got := m.Stage(ctx, Stage{Pairs: []Pair{{0, 1}}})[0]; got.Error != "interrupted" {
			t.Errorf("%+v", got)
		}
	})
}

// TestGIDsWithoutPrograms: the script finds the GID by the shell alone. soft-RoCE has 1,024 entries, and a program for
// each takes a minute on a busy machine.
func TestGIDsWithoutPrograms(t *testing.T) {
	sys := t.TempDir()
	for name, content := range map[string]string{
		"link_layer": "Ethernet\n", "gid_attrs/types/7": "RoCE v2\n", "gids/7": "0000:0000:0000:0000:0000:ffff:0a4d:0101\n",
	} {
		file := filepath.Join(sys, "class/infiniband/rxe0/ports/1", name)
		must.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.NoError(t, os.WriteFile(file, []byte(content), 0o644))
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", strings.ReplaceAll(script, "/sys/", sys+"/"), "sh",
		"client", "rxe0", "1", "18515", "1")
	cmd.Env = []string{"PATH=" + sys}
	said, _ := cmd.CombinedOutput() // it fails, since there are no programs
	test.StrContains(t, string(said), "unit none\n")
	test.StrNotContains(t, string(said), "no GID of RoCE v2")
}
