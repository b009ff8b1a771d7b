package runtimes

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// podmanRun is a podman command line: an ordinary user without capabilities, and no
// --ulimit.
func podmanRun(runtime string, more ...string) []string {
	argv := []string{"podman", "run", "--runtime", runtime, "--user", "1000", "--cap-drop", "all",
		"--security-opt", "no-new-privileges"}
	return append(argv, more...)
}

// sh is the end of a podman command line.
func sh(script string) []string { return []string{toolsImage, "sh", "-c", script} }

// small is what old hosts give their daemons: 64 KiB, soft and hard.
const small = "65536:65536"

// pair runs two containers of podman, the second in the network of the first, and
// returns what each said. Both inherit 64 KiB of locked memory.
func pair(t *testing.T, runtime, device, network string, scripts func() (server, client string)) (
	server, client inside.Result) {
	t.Helper()
	serverScript, clientScript := scripts()
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	start := slices.Concat(inside.LockedMemory(small),
		podmanRun(runtime, "--detach", "--name", name, "--network", network, "--device", device), sh(serverScript))
	inside.Must(t, start...)
	t.Cleanup(func() { inside.Must(t, "podman", "rm", "--force", "--time", "0", name) })
	if network != "host" {
		network = "container:" + name
	}
	client = inside.Run(slices.Concat(inside.LockedMemory(small),
		podmanRun(runtime, "--rm", "--network", network, "--device", device), sh(clientScript))...)
	if client.Code != 0 {
		// Where the client has failed the server may wait for ever.
		inside.Run("podman", "stop", "--time", "0", name)
	}
	server.Code = 1
	if strings.TrimSpace(inside.Must(t, "podman", "wait", name)) == "0" {
		server.Code = 0
	}
	server.Out = inside.Must(t, "podman", "logs", name)
	return server, client
}

// unprivileged are the words of a container that has one device and all it needs for
// it, and nothing else.
func unprivileged(t *testing.T, what, out, ibdev string) {
	t.Helper()
	inside.Wants(t, what, out, "user 1000 capabilities 0000000000000000", "memlock soft unlimited hard unlimited",
		"nodes rdma_cm "+uverbs(t, ibdev)+" \n", "devices "+ibdev+" \n")
}

// The main job with podman: two containers, one device each, no capability, no --ulimit,
// 64 KiB of locked memory to begin with.
func TestPodmanTraffic(t *testing.T) {
	t.Log(inside.Must(t, "podman", "--version"))
	for _, runtime := range inside.Runtimes {
		t.Run(runtime, func(t *testing.T) {
			before := inside.SentPackets(t, "rxe0")
			server, client := pair(t, runtime, "rdma.dev/hca=rxe0", "none", func() (string, string) { return traffic("rxe0") })
			for what, r := range map[string]inside.Result{"server": server, "client": client} {
				t.Logf("%s: status %d\n%s", what, r.Code, r.Out)
				test.Eq(t, 0, r.Code, test.Sprintf("%s: status", what))
				unprivileged(t, what, r.Out, "rxe0")
				inside.Wants(t, what, r.Out, "5 iters in", "BW average", what+" done")
			}
			// 5 MiB each way by ibv_rc_pingpong and 5 MiB by ib_write_bw, in packets of 1024 bytes.
			test.GreaterEq(t, 15*1024, inside.SentPackets(t, "rxe0")-before,
				test.Sprint("the device has sent only"))
		})
	}
}

// The same, without the hook: registering memory fails for want of locked memory.
func TestPodmanWithoutHook(t *testing.T) {
	needs.Long(t, "TestRootlessPodman has 64 KiB that do not suffice, and TestProduct a container without the hook")
	inside.Must(t, "cdi-gen", "generate", "--no-hook", "--kind", "rdma.dev/nohook", "--to", "/etc/cdi/nohook.yaml")
	t.Cleanup(func() { os.Remove("/etc/cdi/nohook.yaml") })
	// The pingpong registers its memory before it waits for a partner, ib_write_bw after.
	script := look + await + `
ibv_rc_pingpong -d rxe0 -g 1 -s 1048576; echo "pingpong status $?"
timeout 20 ib_write_bw -d rxe0 -x 1 -u 20 -F -s 1048576 &
await 18515; timeout 20 ib_write_bw -d rxe0 -x 1 -u 20 -F -s 1048576 127.0.0.1; echo "write status $?"; wait`
	inside.EachRuntime(t, func(t *testing.T, runtime string) {
		kernel := openKernelLog(t)
		out := inside.Must(t, slices.Concat(inside.LockedMemory(small),
			podmanRun(runtime, "--rm", "--network", "none", "--device", "rdma.dev/nohook=rxe0"), sh(script))...)
		t.Log(out)
		inside.Wants(t, "container", out, "memlock soft 64 hard 64", "devices rxe0",
			"Couldn't register MR", "pingpong status 1", "Couldn't allocate MR", "write status 1")
		// ENOMEM is 12.
		inside.Wants(t, "kernel", kernel.read(t), "rxe_reg_user_mr: returned err = -12")
	})
}

// kernelLog reads what the kernel logs from now on.
type kernelLog int

func openKernelLog(t *testing.T) kernelLog {
	t.Helper()
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err == nil {
		_, err = unix.Seek(fd, 0, unix.SEEK_END)
	}
	must.NoError(t, err, must.Sprint("open the kernel's log"))
	t.Cleanup(func() { unix.Close(fd) })
	return kernelLog(fd)
}

func (k kernelLog) read(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	record := make([]byte, 8192)
	for {
		n, err := unix.Read(int(k), record)
		if err == unix.EAGAIN {
			return b.String()
		}
		must.NoError(t, err, must.Sprint("read the kernel's log"))
		b.Write(record[:n])
	}
}

// A container without the device has no node, and may open none that it makes.
func TestPodmanWithoutDevice(t *testing.T) {
	umad := number(t, "infiniband_mad", "umad0")
	inside.EachRuntime(t, func(t *testing.T, runtime string) {
		script := look + probe(number(t, "infiniband_verbs", uverbs(t, "rxe0")),
			number(t, "infiniband_verbs", uverbs(t, "rxe1")), umad)
		out := inside.Must(t, append([]string{"podman", "run", "--runtime", runtime, "--rm", "--network", "none",
			"--cap-add", "MKNOD"}, sh(script)...)...)
		t.Log(out)
		inside.Wants(t, "container", out, "nodes \n", "devices \n")
		test.Eq(t, 3, strings.Count(out, "Operation not permitted"), test.Sprint("of three opens were refused"))
		if strings.Contains(out, "present") || strings.Contains(out, "OPENED") {
			t.Error("the container can open a node that it was not given")
		}
	})
}

// A container with one device sees no other, and may open no other, nor a MAD node.
func TestPodmanOneDeviceOnly(t *testing.T) {
	umad := number(t, "infiniband_mad", "umad0")
	inside.EachRuntime(t, func(t *testing.T, runtime string) {
		script := look + probe(number(t, "infiniband_verbs", uverbs(t, "rxe0")), umad)
		out := inside.Must(t, append([]string{"podman", "run", "--runtime", runtime, "--rm", "--network", "none",
			"--cap-add", "MKNOD", "--device", "rdma.dev/hca=rxe1"}, sh(script)...)...)
		t.Log(out)
		inside.Wants(t, "container", out, "nodes rdma_cm "+uverbs(t, "rxe1")+" \n", "devices rxe1 \n")
		if got := strings.Count(out, "Operation not permitted"); got != 2 || strings.Contains(out, "OPENED") {
			t.Errorf("%d of two opens were refused", got)
		}
	})
}

// Connections by rdma_cm, over soft-RoCE and soft-iWARP. The connection manager looks for
// addresses in the container's network, so that is the host's.
func TestPodmanConnectionManager(t *testing.T) {
	for ibdev, address := range map[string]string{"rxe0": rxe0Address, "siw0": siw0Address} {
		t.Run(ibdev, func(t *testing.T) {
			if ibdev == "rxe0" {
				needs.Long(t, "TestPodmanTraffic has soft-RoCE, TestTwoNodes rdma_cm over it, and siw0 rdma_cm in podman")
			}
			inside.EachRuntime(t, func(t *testing.T, runtime string) {
				server, client := pair(t, runtime, "rdma.dev/hca="+ibdev, "host",
					func() (string, string) { return connect(address) })
				t.Logf("server: status %d\n%s\nclient: status %d\n%s", server.Code, server.Out, client.Code, client.Out)
				unprivileged(t, "server", server.Out, ibdev)
				unprivileged(t, "client", client.Out, ibdev)
				inside.Wants(t, "server", server.Out, "server ping data: rdma-ping-2")
				inside.Wants(t, "client", client.Out, "ping data: rdma-ping-2", "client done")
			})
		})
	}
}
