package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/runtimes"
)

// daemon is a running process that starts containers.
type daemon struct {
	name    string // of the process, such as containerd
	runtime string // its name in package runtimes
	unit    string // of systemd
	pid     int    // 0 for a session
	process process
	limits  *limits // of locked memory, nil if they could not be read
}

func (d daemon) String() string {
	if d.pid == 0 {
		return d.name
	}
	return fmt.Sprintf("%s (pid %d)", d.name, d.pid)
}

// limits are a soft and a hard resource limit.
type limits struct{ soft, hard hook.Size }

// daemonKinds are the programs that findEngines runs, and the processes that findDaemons searches for. Containers of
// dockerd are children of a containerd.
var daemonKinds = []daemon{
	{name: "containerd", runtime: runtimes.Containerd, unit: "containerd.service"},
	{name: "crio", runtime: runtimes.CRIO, unit: "crio.service"},
	{name: "dockerd", runtime: runtimes.Docker, unit: "docker.service"},
	{name: "podman", runtime: runtimes.Podman, unit: "podman.service"},
}

// findDaemons searches the host's processes.
func findDaemons(f *facts) []daemon {
	entries, err := hostfs.ReadDir(f.Root, "/proc")
	if err == nil && len(entries) == 0 {
		err = errors.New("the host's /proc is empty")
	}
	if err != nil {
		f.addUnseen("processes", err)
		return nil
	}
	var daemons []daemon
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		comm, err := hostfs.ReadFile(f.Root, "/proc/"+e.Name()+"/comm", maxFile)
		if err != nil {
			continue // the process has ended
		}
		for _, d := range daemonKinds {
			if d.name == strings.TrimSpace(string(comm)) && f.serves(&d, e.Name()) {
				d.pid, d.limits = pid, f.memlockOf(e.Name())
				daemons = append(daemons, d)
			}
		}
	}
	return daemons
}

// serves reports whether a process is really the daemon of its name, and sets its identity. Any user may run a program
// called containerd, or podman. Only the service of podman counts, because other podman commands have the limits of the
// session that started them.
func (f *facts) serves(d *daemon, pid string) bool {
	d.process = f.processOf(pid)
	if d.runtime != runtimes.Podman {
		return d.process.ofHost()
	}
	line, err := hostfs.ReadFile(f.Root, "/proc/"+pid+"/cmdline", maxFile)
	return err == nil && !d.process.nested && slices.Contains(strings.Split(string(line), "\x00"), "service")
}

// memlockOf reads the limits of locked memory of a process, "self" for this process. It returns nil if it cannot.
func (f *facts) memlockOf(pid string) *limits {
	text, _ := f.optional("/proc/" + pid + "/limits")
	return parseLimits(text)
}

// parseLimits finds the limits of locked memory in a limits file (fs/proc/base.c, proc_pid_limits).
func parseLimits(s string) *limits {
	var l limits
	fields := fieldsOf(s, "Max locked memory")
	if len(fields) < 2 || l.soft.UnmarshalText([]byte(fields[0])) != nil ||
		l.hard.UnmarshalText([]byte(fields[1])) != nil {
		return nil
	}
	return &l
}

// memTotal returns the memory of the host, Unlimited if it is unknown. A limit of that size has no effect.
func (f *facts) memTotal() hook.Size {
	text, _ := f.optional("/proc/meminfo")
	if fields := fieldsOf(text, "MemTotal:"); len(fields) > 0 {
		if kib, err := strconv.ParseUint(fields[0], 10, 53); err == nil {
			return hook.Size(kib << 10)
		}
	}
	return hook.Unlimited
}
