package limits

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// container is one of podman that runs in the background.
type container struct {
	name, id, cgroup string
}

// podmanRun is the front of a podman command line, with an ordinary user in the container.
func podmanRun(runtime string, more ...string) []string {
	argv := []string{"podman", "run", "--runtime", runtime, "--network", "none", "--user", "1000", "--cap-drop", "all", "--volume", userPath + ":" + userPath + ":ro", "--volume", words + ":" + words}
	return append(argv, more...)
}

// start starts a container that uses verbs.
func start(t *testing.T, runtime, name string, devices []string, args ...string) container {
	t.Helper()
	c := container{name: runtime + "-" + name}
	argv := podmanRun(runtime, "--detach", "--name", c.name, "--pidfile", c.pidFile())
	for _, d := range devices {
		argv = append(argv, "--device", d)
	}
	c.id = strings.TrimSpace(inside.Must(t, slices.Concat(argv, []string{toolsImage, userPath, userRole, c.words()}, args)...))
	t.Cleanup(func() { inside.Must(t, "podman", "rm", "--force", "--time", "0", c.name) })
	c.findCgroup(t)
	return c
}

func (c *container) pidFile() string { return "/run/" + c.name + ".pid" }
func (c *container) words() string   { return words + "/" + c.name }

// findCgroup finds the cgroup of the container's first process. It is another one after
// every start.
func (c *container) findCgroup(t *testing.T) {
	t.Helper()
	pid := strings.TrimSpace(read(t, "", c.pidFile()))
	path, ok := strings.CutPrefix(read(t, "/proc/"+pid, "cgroup"), "0::")
	must.True(t, ok, must.Sprintf("process %s is in no cgroup of v2", pid))
	c.cgroup = filepath.Join(unified, strings.TrimSpace(path))
}

const uverbs0 = "/dev/infiniband/uverbs0"

// One container may open rxe0 once and make three objects; its neighbour on the same
// device is free, and a third one has more.
func TestNeighbours(t *testing.T) {
	inside.EachRuntime(t, func(t *testing.T, runtime string) {
		tight := start(t, runtime, "tight", []string{"rdma.dev/limited=tight"}, uverbs0, "3", "5")
		text := said(t, tight.words())
		t.Log(text)
		const again = ": EAGAIN (resource temporarily unavailable)\n"
		inside.Wants(t, "the container with limits", text, "context 1: ok\ncontext 2"+again+"context 3: EAGAIN",
			"object 1: ok\nobject 2: ok\nobject 3: ok\nobject 4"+again+"object 5: EAGAIN")
		free := start(t, runtime, "free", []string{"rdma.dev/other=free"}, uverbs0, "8", "50")
		wide := start(t, runtime, "wide", []string{"rdma.dev/limited=wide"}, uverbs0, "4", "20")
		for _, c := range []container{free, wide} {
			test.StrNotContains(t, said(t, c.words()), "EAGAIN", test.Sprintf("%s", c.name))
		}
		for c, want := range map[container][2]string{
			tight: {"rxe0 hca_handle=1 hca_object=3 \n", "rxe0 hca_handle=1 hca_object=3 \n"},
			wide:  {"rxe0 hca_handle=4 hca_object=20 \n", "rxe0 hca_handle=4 hca_object=20 \n"},
			free:  {"rxe0 hca_handle=max hca_object=max \n", "rxe0 hca_handle=8 hca_object=50 \n"},
		} {
			most, current := read(t, c.cgroup, "rdma.max"), read(t, c.cgroup, "rdma.current")
			t.Logf("%s in %s:\nmax %scurrent %s", c.name, c.cgroup, most, current)
			inside.Wants(t, c.name+"'s rdma.max", most, want[0], "rxe1 hca_handle=max hca_object=max \n")
			inside.Wants(t, c.name+"'s rdma.current", current, want[1])
		}
		pingpong(t, tight, free)
		checkReport(t, runtime, tight)
		takeReports(t, wide.id)
	})
}

// pingpong lets real programs run in exec sessions: the one of the container that has
// used up its handles cannot open the device, the pair of its neighbour has traffic.
func pingpong(t *testing.T, tight, free container) {
	t.Helper()
	r := inside.Run("podman", "exec", tight.name, "ibv_rc_pingpong", "-d", "rxe0", "-g", "1")
	t.Logf("in %s: %s", tight.name, r.Out)
	if r.Code == 0 || !strings.Contains(r.Out, "Couldn't get context for rxe0") {
		t.Errorf("in %s: status %d, %s", tight.name, r.Code, r.Out)
	}
	const pair = `ibv_rc_pingpong -d rxe0 -g 1 -n 5 & until netstat -ltn | grep -q :18515; do sleep 0.1; done
timeout 60 ibv_rc_pingpong -d rxe0 -g 1 -n 5 127.0.0.1 && wait`
	out := inside.Must(t, "podman", "exec", free.name, "sh", "-c", pair)
	test.Eq(t, 2, strings.Count(out, "5 iters in"), test.Sprintf("in %s: %s", free.name, out))
}

func checkReport(t *testing.T, runtime string, c container) {
	t.Helper()
	r, ok := takeReports(t, c.id)["rxe0"]
	status := map[string]string{"runc": "creating", "crun": "created"}[runtime]
	if !ok || r.Status != status || len(r.Limits) != 1 || r.Limits[0].Outcome != "limited" ||
		r.Limits[0].Before.Handles != "max" || r.Limits[0].After.Handles != "1" || r.Limits[0].After.Objects != "3" {
		t.Errorf("the report: %+v", r)
	}
}

// Four hooks in a container, two of them for one device: the larger limits count. After
// a restart the container has a new cgroup, and its limits.
func TestTwoLimits(t *testing.T) {
	needs.Long(t, "TestNeighbours has a limit in the kernel, and TestSetLimits of internal/hook the larger of two")
	inside.EachRuntime(t, func(t *testing.T, runtime string) {
		c := start(t, runtime, "two", []string{"rdma.dev/limited=tight", "rdma.dev/other=free", "rdma.dev/other=tight", "rdma.dev/limited=both"}, uverbs0, "2", "3")
		test.StrNotContains(t, said(t, c.words()), "EAGAIN")
		limits := []string{"rxe0 hca_handle=2 hca_object=3 \n", "rxe1 hca_handle=2 hca_object=max \n"}
		inside.Wants(t, "rdma.max", read(t, c.cgroup, "rdma.max"), limits...)
		found := takeReports(t, c.id)
		if len(found) != 2 || found[""].Outcome != "already" || len(found["rxe0"].Limits) == 0 {
			t.Errorf("reports: %+v", found)
		}
		inside.Must(t, "podman", "restart", "--time", "0", c.name)
		c.findCgroup(t)
		inside.Wants(t, "rdma.max after a restart", read(t, c.cgroup, "rdma.max"), limits...)
		takeReports(t, c.id)
	})
}

// Without a cgroup of its own a container is not limited, and nobody else either.
func TestWithoutCgroup(t *testing.T) {
	before := read(t, unified, "cgroup.subtree_control")
	argv := podmanRun("crun", "--name", "none", "--cgroups", "disabled", "--device", "rdma.dev/limited=tight")
	out := inside.Must(t, slices.Concat(argv, []string{toolsImage, "true"})...)
	id := strings.TrimSpace(inside.Must(t, "podman", "inspect", "--format", "{{.Id}}", "none"))
	inside.Must(t, "podman", "rm", "--force", "none")
	r := takeReports(t, id)["rxe0"]
	if len(r.Limits) != 1 || r.Limits[0].Outcome != "unlimited" || !strings.Contains(r.Limits[0].Message, "no cgroup of its own") {
		t.Errorf("the report: %+v\n%s", r, out)
	}
	test.Eq(t, before, read(t, unified, "cgroup.subtree_control"), test.Sprint("cgroup.subtree_control"))
}

// Rootless podman runs the hook as the user, who may not limit anything here.
func TestRootless(t *testing.T) {
	inside.PrepareUser(t, os.Getenv("TOOLS_ARCHIVE"))
	inside.EachRuntime(t, func(t *testing.T, runtime string) {
		argv := podmanRun(runtime, "--name", runtime, "--device", "rdma.dev/limited=tight")
		out := inside.Must(t, slices.Concat(inside.AsUser("65536:8388608"), argv, []string{toolsImage, "sh", "-c", "ibv_devinfo -d rxe0 | head -1"})...)
		inside.Wants(t, "the container", out, "rxe0")
		found, err := filepath.Glob(reports + "/*.rxe0.json")
		if err != nil || len(found) != 1 {
			t.Fatalf("reports %v, %v", found, err)
		}
		r := takeReports(t, strings.TrimSuffix(filepath.Base(found[0]), ".rxe0.json"))["rxe0"]
		if len(r.Limits) != 1 || r.Limits[0].Outcome != "unlimited" {
			t.Errorf("the report: %+v", r)
		}
	})
}
