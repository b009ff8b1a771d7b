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

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/patch"
)

// outputs are what the script prints in pods, by what it shows.
func outputs(t testing.TB) (all map[string]string) {
	t.Helper()
	patch.File(t, "testdata/outputs.yaml", &all)
	return all
}

// TestReading: the messages are those that perftest completed, and the complaint says what it failed with.
func TestReading(t *testing.T) {
	type reading struct {
		Messages  int64
		Exit      int
		Complaint string
	}
	read := map[string]reading{}
	for name, text := range outputs(t) {
		r := parse(text)
		read[name] = reading{r.messages, r.exit, r.complaint()}
	}
	golden.JSON(t, "read", read)
}

// FuzzParse: whatever a pod prints, figures are finite and bounded, and words are bounded.
func FuzzParse(f *testing.F) {
	for _, output := range outputs(f) {
		f.Add(output)
	}
	f.Fuzz(func(t *testing.T, output string) {
		r := parse(output)
		if gbps := r.sent(3 * time.Second); !(gbps >= 0) || gbps > 1e12 {
			t.Errorf("%v Gb/s", gbps)
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

// pairRow is what happens in the pods of a pair.
type pairRow struct {
	Name string
	// Prints is what the script prints. Client replaces it in the client's pod.
	Prints, Client string
	// Refused is the error of the server's pod.
	Refused string
	// Slow says that each end takes a minute to start.
	Slow bool
	// Hangs is the end that never ends, or both.
	Hangs string
}

func (p *pairRow) run(ctx context.Context, _, role string, stdout io.Writer) error {
	if p.Refused != "" && role == "server" {
		return errors.New(p.Refused)
	} else if p.Refused != "" {
		return errors.New("a client runs without its server")
	}
	text := p.Prints
	if role == "client" && p.Client != "" {
		text = p.Client
	}
	if p.Slow {
		time.Sleep(50 * time.Second)
	}
	before, after, listens := strings.Cut(text, "listening\n")
	if listens {
		before += "listening\n"
	}
	_, err := io.WriteString(stdout, before)
	if p.Slow && role == "server" {
		time.Sleep(time.Minute)
	}
	_, err2 := io.WriteString(stdout, after)
	if p.Hangs == "both" || p.Hangs == role {
		<-ctx.Done()
		err = ctx.Err()
	}
	return errors.Join(err, err2)
}

// TestPair: the client starts when the server listens, and each way to fail is a text. The rate of each direction is
// that of its sender's completed messages, without the first and the last fourth of the time. Without messages the pair
// is not measured, whatever rate perftest names.
func TestPair(t *testing.T) {
	var rows []pairRow
	patch.File(t, "testdata/pairs.yaml", &rows)
	results := map[string]Result{}
	for _, row := range rows {
		synctest.Test(t, func(t *testing.T) {
			m := &Measure{HCAs: machines(2, 1, true), Exec: pods(row.run), Duration: 10 * time.Second,
				Addresses: map[string]string{"n0": "10.0.0.1", "n1": "10.0.0.2"}}
			results[row.Name] = m.Stage(t.Context(), Stage{Together: true, Pairs: []Pair{{0, 1}}})[0]
		})
	}
	golden.JSON(t, "pairs", results)
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
	test.StrNotContains(t, string(said), "no GID of RoCE v2")
}

// TestListensBefore: whatever the select picks, a server that has ended has listened if it said so.
func TestListensBefore(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	for range 64 {
		server := newSaid()
		fmt.Fprint(server, "listening\n")
		test.True(t, server.listensBefore(ended))
	}
	test.False(t, newSaid().listensBefore(ended))
}
