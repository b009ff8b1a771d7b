package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
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
type limits struct{ soft, hard args.Size }

// daemonKinds are the programs that findEngines runs, and the processes that findDaemons searches for. Containers of
// dockerd are children of a containerd.
var daemonKinds = []daemon{
	{name: "containerd", runtime: runtimes.Containerd, unit: "containerd.service"},
	{name: "crio", runtime: runtimes.CRIO, unit: "crio.service"},
	{name: "dockerd", runtime: runtimes.Docker, unit: "docker.service"},
	{name: "podman", runtime: runtimes.Podman, unit: "podman.service"},
}

// findDaemons searches the host's processes.
func findDaemons(host *reader) []daemon {
	entries, err := hostfs.ReadDir(host.Root, "/proc", runtimeconf.MaxProcesses)
	if err == nil && len(entries) == 0 {
		err = errors.New("the host's /proc is empty")
	}
	if err != nil {
		host.unseen["processes"] = err
		return nil
	}
	if _, err := hostfs.ReadFile(host.Root, "/proc/1/comm", maxFile); err != nil { // hidepid of proc(5)
		host.unseen["processes of other users, and their containers"] = err
	}
	var daemons []daemon
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		comm, err := hostfs.ReadFile(host.Root, "/proc/"+e.Name()+"/comm", maxFile)
		if err != nil {
			continue // the process has ended
		}
		for _, d := range daemonKinds {
			if d.name == strings.TrimSpace(string(comm)) && d.serves(host, e.Name()) {
				d.pid, d.limits = pid, host.memlockOf(e.Name())
				daemons = append(daemons, d)
			}
		}
	}
	return daemons
}

// serves reports whether a process is really the daemon of its name, and sets its identity. Any user may run a program
// called containerd, or podman. Only the service of podman counts, because other podman commands have the limits of the
// session that started them. Its cgroup says so, since the kernel writes that file: cmdline is memory of its owner, which
// FUSE may back.
func (d *daemon) serves(host *reader, pid string) bool {
	d.process = host.processOf(pid)
	if d.runtime != runtimes.Podman {
		return d.process.ofHost()
	}
	cgroup, err := hostfs.ReadFile(host.Root, "/proc/"+pid+"/cgroup", maxFile)
	return err == nil && !d.process.nested && strings.Contains(string(cgroup), "/"+d.unit)
}

// memlockOf reads the limits of locked memory of a process, "self" for this process. It returns nil if it cannot.
func (r *reader) memlockOf(pid string) *limits {
	text, _ := r.optional("/proc/" + pid + "/limits")
	return parseLimits(text)
}

// parseLimits finds the limits of locked memory in a limits file (fs/proc/base.c, proc_pid_limits).
func parseLimits(s string) *limits {
	var l limits
	fields := runtimeconf.Fields(s, "Max locked memory")
	if len(fields) < 2 || l.soft.UnmarshalText([]byte(fields[0])) != nil ||
		l.hard.UnmarshalText([]byte(fields[1])) != nil {
		return nil
	}
	return &l
}

// memTotal returns the memory of the host, Unlimited if it is unknown. A limit of that size has no effect.
func (r *reader) memTotal() args.Size {
	text, _ := r.optional("/proc/meminfo")
	if fields := runtimeconf.Fields(text, "MemTotal:"); len(fields) > 0 {
		if kib, err := strconv.ParseUint(fields[0], 10, 53); err == nil {
			return args.Size(kib << 10)
		}
	}
	return args.Unlimited
}

// process holds the identity and the rights of a process, as the kernel reports them.
type process struct {
	uid    int  // -1 if it is not known, or not the one who started it
	nested bool // in a PID namespace below the host's
	// raises reports whether the process, and the hooks that it starts, may raise a hard limit. They need
	// CAP_SYS_RESOURCE in the user namespace of the host: user 0 is not enough.
	raises bool
}

// ofHost reports whether a process is a service of the host. A user or a container can run a program of the same name.
func (p process) ofHost() bool { return p.uid == 0 && !p.nested }

// capSysResource is the number of CAP_SYS_RESOURCE (include/uapi/linux/capability.h).
const capSysResource = 24

// processOf reads the status of a process, "self" for this process. If the status cannot be read, the process has no
// rights.
func (r *reader) processOf(pid string) process {
	status, _ := r.optional("/proc/" + pid + "/status")
	p := process{nested: len(runtimeconf.Fields(status, "NSpid:")) > 1}
	p.uid, _ = runtimeconf.UserOf(r.Root, "/proc/"+pid, status)
	p.raises = mayRaise(status, "CapEff:") && mayRaise(status, "CapBnd:") && r.inHostUserNamespace(pid)
	return p
}

// mayRaise reports whether a capability set of a status has CAP_SYS_RESOURCE.
func mayRaise(status, set string) bool {
	bits, err := strconv.ParseUint(strings.Join(runtimeconf.Fields(status, set), ""), 16, 64)
	return err == nil && bits&(1<<capSysResource) != 0
}

// inHostUserNamespace reports whether a process is in the first user namespace. The kernel checks capabilities there:
// in a user namespace of its own a process can have all of them.
func (r *reader) inHostUserNamespace(pid string) bool {
	text, ok := r.optional("/proc/" + pid + "/uid_map")
	return !ok || strings.Join(strings.Fields(text), " ") == "0 0 4294967295"
}

// maxReport bounds the size of a report of the hook. Real reports have less than 4 KiB.
const maxReport = 256 << 10

// lastReport returns the newest report of the specs' hooks about a limit, nil if there is none.
func (specs specFiles) lastReport(host *reader) *record.Report {
	var last *record.Report
	for _, name := range specs.reportFiles(host) {
		info, err := hostfs.Stat(host.Root, name)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxReport {
			continue // the driver has removed it, or it is not a report
		}
		var r record.Report
		text, err := hostfs.ReadFile(host.Root, name, maxReport)
		if err != nil {
			host.unseen["report of the hook "+name] = err
		}
		if json.Unmarshal(text, &r) == nil && r.Want != nil && (last == nil || r.Time.After(last.Time)) {
			last = &r
		}
	}
	return last
}

// reportFiles lists the files to which the specs' hooks write reports. It leaves out temporary files.
func (specs specFiles) reportFiles(host *reader) []string {
	var files []string
	for _, o := range specs.hookOptions() {
		if o.LastReport != "" {
			files = append(files, o.LastReport)
		}
		if o.Report == "" {
			continue
		}
		for _, e := range host.list(o.Report) {
			if path.Ext(e.Name()) == ".json" {
				files = append(files, path.Join(o.Report, e.Name()))
			}
		}
	}
	return unique(files)
}
