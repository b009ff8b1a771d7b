package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/runtimes"
)

// daemon is a running process from which containers descend.
type daemon struct {
	name    string // of the process: containerd
	runtime string // as package runtimes names it
	unit    string // of systemd
	pid     int
	process process
	limits  *limits // of locked memory, nil if they could not be read
}

func (d daemon) String() string { return fmt.Sprintf("%s (pid %d)", d.name, d.pid) }

// limits are a soft and a hard resource limit.
type limits struct{ soft, hard hook.Size }

// daemonKinds are the processes that are looked for. The containers of dockerd
// descend from a containerd.
var daemonKinds = []daemon{
	{name: "containerd", runtime: runtimes.Containerd, unit: "containerd.service"},
	{name: "crio", runtime: runtimes.CRIO, unit: "crio.service"},
	{name: "dockerd", runtime: runtimes.Docker, unit: "docker.service"},
	{name: "podman", runtime: runtimes.Podman, unit: "podman.service"},
}

// findDaemons looks through the host's processes.
func findDaemons(f *facts) []daemon {
	entries, err := f.root.ReadDir("/proc")
	if err == nil && len(entries) == 0 {
		err = errors.New("the host's /proc is empty")
	}
	if err != nil {
		f.blind("processes", err)
		return nil
	}
	var daemons []daemon
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// A process may end at any moment.
		comm, err := f.root.ReadFile("/proc/" + e.Name() + "/comm")
		if err != nil {
			continue
		}
		for _, d := range daemonKinds {
			if d.name == strings.TrimSpace(string(comm)) && f.serves(&d, e.Name()) {
				d.pid = pid
				d.limits = f.memlockOf(strconv.Itoa(pid))
				daemons = append(daemons, d)
			}
		}
	}
	return daemons
}

// serves reports whether a process is what its name says, and fills in who it is. Anybody may run a program called
// containerd. Users have a podman of their own. Only the podman service counts, because the other podman commands have
// the limits of the session that called them.
func (f *facts) serves(d *daemon, pid string) bool {
	d.process = f.processOf(pid)
	if d.runtime != runtimes.Podman {
		return d.process.ofHost()
	}
	line, err := f.root.ReadFile("/proc/" + pid + "/cmdline")
	return err == nil && !d.process.nested && slices.Contains(strings.Split(string(line), "\x00"), "service")
}

// memlockOf reads the limits of locked memory of a process, "self" for this one.
func (f *facts) memlockOf(pid string) *limits {
	name := "/proc/" + pid + "/limits"
	data, err := f.root.ReadFile(name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			f.blind(name, err)
		}
		return nil
	}
	return parseLimits(string(data))
}

// parseLimits finds the limits of locked memory in a limits file
// (fs/proc/base.c, proc_pid_limits).
func parseLimits(s string) *limits {
	for line := range strings.Lines(s) {
		rest, ok := strings.CutPrefix(line, "Max locked memory")
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			return nil
		}
		var l limits
		if l.soft.UnmarshalText([]byte(fields[0])) != nil || l.hard.UnmarshalText([]byte(fields[1])) != nil {
			return nil
		}
		return &l
	}
	return nil
}

// memTotal is the memory of the host, which is as good as no limit; Unlimited if
// it is not known.
func (f *facts) memTotal() hook.Size {
	text, _ := f.optional("/proc/meminfo")
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				if kib, err := strconv.ParseUint(fields[0], 10, 53); err == nil {
					return hook.Size(kib << 10)
				}
			}
		}
	}
	return hook.Unlimited
}
