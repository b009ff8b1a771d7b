package product

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// quickStart runs the commands of the documents, to the letter, as somebody does who
// has a fresh machine with an HCA, the package, and an image with perftest. The
// documents call the HCA mlx5_0, as most hosts do.
func quickStart(t *testing.T) {
	data, err := os.ReadFile(commandsFile)
	must.NoError(t, err)
	commands := strings.Split(strings.TrimSpace(string(data)), "\n")
	must.Eq(t, 5, len(commands), must.Sprintf("%d commands, want five: %q", len(commands), commands))
	wantFresh(t)
	loadImage(t)
	inside.Must(t, "rdma", "dev", "set", "rxe0", "name", "mlx5_0")
	t.Cleanup(func() { inside.Must(t, "rdma", "dev", "set", "mlx5_0", "name", "rxe0") })
	t.Cleanup(func() { inside.Run("podman", "rm", "--force", "--time", "0", "server") })

	said := make([]string, len(commands))
	for i, command := range commands[:3] {
		said[i] = enter(t, command, nil)
	}
	said[3], said[4] = write(t, commands[3], commands[4])
	inside.Wants(t, "cdi-gen list", said[1], "mlx5_0", "roce", "ACTIVE")
	inside.Wants(t, "cdi-gen generate", said[2], specFile+" written")
	inside.Wants(t, "the client", said[4], "RDMA_Write BW Test", ": mlx5_0", "BW average[MB/sec]", " 65536      5000 ")
	test.Eq(t, "0", strings.TrimSpace(inside.Must(t, "podman", "wait", "server")),
		test.Sprint("the server ends with status"))
	inside.Wants(t, "the server", inside.Must(t, "podman", "logs", "server"), "BW average[MB/sec]", " 65536      5000 ")
}

// enter runs a command that has to succeed, but where it may fail.
func enter(t *testing.T, command string, mayFail func(inside.Result) bool) string {
	t.Helper()
	start := time.Now()
	r := inside.Run("sh", "-c", command)
	t.Logf("# %s\n%s(status %d, %.1f s)", command, r.Out, r.Code, time.Since(start).Seconds())
	if r.Code != 0 && (mayFail == nil || !mayFail(r)) {
		t.Fatalf("%s: status %d\n%s", command, r.Code, inside.Run("podman", "logs", "server").Out)
	}
	return r.Out
}

// write runs server and client. On a host that is busy the emulated machine may stand
// still for longer than an RDMA connection retries (work completion status 12 on one
// side, 9 or 12 on the other), so they have three tries.
func write(t *testing.T, server, client string) (serverSaid, clientSaid string) {
	t.Helper()
	for tries := 3; ; tries-- {
		serverSaid = enter(t, server, nil)
		inside.Eventually(t, "the server listens", time.Minute, func() error { return listening("4853") }) // 18515
		timedOut := false
		clientSaid = enter(t, client, func(r inside.Result) bool {
			timedOut = strings.Contains(r.Out, "Completion with error at client")
			return timedOut && tries > 1
		})
		if !timedOut {
			return serverSaid, clientSaid
		}
		inside.Must(t, "podman", "rm", "--force", "--time", "0", "server")
	}
}

// wantFresh asserts that nobody has been here.
func wantFresh(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/usr/bin/cdi-gen", "/usr/bin/rdma-hook"} {
		if _, err := os.Stat(path); err == nil {
			t.Fatalf("this machine is not fresh: it has %s", path)
		}
	}
	for _, dir := range []string{specDir, "/var/run/cdi"} {
		if files, _ := filepath.Glob(dir + "/*"); len(files) > 0 {
			t.Fatalf("this machine is not fresh: it has %v", files)
		}
	}
}

// listening looks for a TCP socket that listens on a port, in hexadecimal, without a
// connection, which would take the place of the client's.
func listening(port string) error {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data)) {
			// Number, local and remote address, state: 0A is LISTEN.
			f := strings.Fields(line)
			if len(f) > 3 && strings.HasSuffix(f[1], ":"+port) && f[3] == "0A" {
				return nil
			}
		}
	}
	return errors.New("nobody listens")
}
