package usable

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// OpenRunning opens a running container by a process of it. The caller must close the result.
func OpenRunning(pid int) (*Container, error) {
	proc := "/proc/" + strconv.Itoa(pid)
	status, err := readFile(proc+"/status", 64<<10)
	if err != nil {
		return nil, wrap("read the container's process", err)
	}
	env, err := readFile(proc+"/environ", maxEnviron)
	if err != nil {
		return nil, wrap("read the variables of the container's process", err)
	}
	root, err := OpenRoot(pid, "/")
	if err != nil {
		return nil, err
	}
	p := parseStatus(string(status))
	p.Cwd = "/"
	for v := range strings.SplitSeq(string(env), "\x00") { // its owner can make it millions
		if name, _, _ := strings.Cut(v, "="); slices.Contains(looked, name) {
			p.Env = append(p.Env, v)
		}
	}
	var known [2]bool
	p.UIDs, known[0] = readRanges(proc + "/uid_map")
	p.GIDs, known[1] = readRanges(proc + "/gid_map")
	if !known[0] || !known[1] {
		p.Unknown = unknownIDs
	}
	p.Memlock = readMemlock(proc)
	p.IPCLock = p.IPCLock && inFirstUserNamespace(proc)
	return &Container{Root: root, Process: p, Sys: "/sys"}, nil
}

// readMemlock reads the soft limit of locked memory of a process, nil if it cannot. prlimit(2) asks for more rights.
func readMemlock(proc string) *uint64 {
	text, _ := readFile(proc+"/limits", 64<<10)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Max locked memory"); ok {
			var limit args.Size
			if fields := strings.Fields(rest); len(fields) > 0 && limit.UnmarshalText([]byte(fields[0])) == nil {
				return (*uint64)(&limit)
			}
		}
	}
	return nil
}

// inFirstUserNamespace reports whether a process is in the host's user namespace. ib_umem_get of the kernel asks for
// CAP_IPC_LOCK there. Its inode is PROC_USER_INIT_INO of include/linux/proc_ns.h.
func inFirstUserNamespace(proc string) bool {
	const first = 0xEFFFFFFD
	var ns unix.Stat_t
	return unix.Stat(proc+"/ns/user", &ns) == nil && ns.Ino == first
}

// Look is what was found of a running container.
type Look struct {
	Checks []finding.Finding
	// AllDevices means that the container has the devices of the whole host, as a privileged one has: it was given no HCA,
	// and may use none.
	AllDevices bool
}

// LookInto checks a running container by a process of it. Its programs need no more locked memory than enough. The look
// is within bounds of files and bytes, but not of time: a file system of the container may never answer.
func LookInto(pid int, hcas []args.HCA, enough args.Size) (l Look, err error) {
	c, err := OpenRunning(pid)
	if err != nil {
		return l, err
	}
	defer c.Close()
	l.AllDevices = c.Root.exists("dev/kmsg")
	if l.Checks = c.Check(hcas); len(l.Checks) > 0 {
		l.Checks = append(l.Checks, c.Process.checkMemlock(enough))
	}
	return l, nil
}

// maxEnviron bounds the variables of a process: execve(2) accepts a quarter of the stack's limit.
const maxEnviron = 8 << 20

// parseStatus parses status of a process (proc_pid_status(5)). Its IDs are the reader's.
func parseStatus(text string) (p Process) {
	p.Unknown = "the IDs of the process are not known"
	fields := map[string][]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		fields[key] = strings.Fields(value)
	}
	ids := func(key string) (out []uint32) {
		for _, f := range fields[key] {
			n, err := strconv.ParseUint(f, 10, 32)
			if err != nil {
				return nil
			}
			out = append(out, uint32(n))
		}
		return out
	}
	const fileSystem = 3 // the ID that file systems check
	const override, ipcLock = 1, 14
	uids, gids := ids("Uid"), ids("Gid")
	if len(uids) > fileSystem && len(gids) > fileSystem {
		p.UID, p.GID, p.Groups, p.Unknown = uids[fileSystem], gids[fileSystem], ids("Groups"), ""
	}
	caps, err := strconv.ParseUint(strings.Join(fields["CapEff"], ""), 16, 64)
	p.Override, p.IPCLock = err == nil && caps&(1<<override) != 0, err == nil && caps&(1<<ipcLock) != 0
	return p
}

// Running is a running container.
type Running struct {
	ID  string
	PID int // of its first process, as the reader sees it
}

// shortestID is how much of a container's ID its users must name. Runtimes show as much.
const shortestID = 12

// FindContainer returns the first process of a container. name is its process ID, or the beginning of the container's
// ID, of at least 12 digits.
func FindContainer(name string) (pid int, err error) {
	if pid, err := strconv.Atoi(name); err == nil && pid > 0 && name[0] != '0' && len(name) < 10 {
		return pid, nil
	}
	if len(name) < shortestID || strings.Trim(name, hexDigits) != "" {
		return 0, errors.New("want a process ID, or at least 12 digits of a container's ID")
	}
	all, err := firstProcesses(func(ids []string) string {
		if slices.ContainsFunc(ids, func(id string) bool { return strings.HasPrefix(id, name) }) {
			return name
		}
		return ""
	})
	if err == nil && len(all) == 0 {
		err = errors.New("no process has a cgroup of this container: is it running on this host?")
	}
	if err != nil {
		return 0, err
	}
	return all[0].PID, nil
}

// FindContainers returns the running containers of this host whose runtimes give them IDs of 64 digits, as podman,
// docker, containerd and CRI-O do. The innermost container of a process counts.
func FindContainers() ([]Running, error) {
	const length = 64
	return firstProcesses(func(ids []string) string {
		if n := len(ids); n > 0 && len(ids[n-1]) == length {
			return ids[n-1]
		}
		return ""
	})
}

// firstProcesses returns the process that started first for each ID that of returns for the IDs in a process's cgroup.
func firstProcesses(of func(ids []string) string) ([]Running, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil, err
	}
	first := map[string]Running{}
	since := map[string]uint64{}
	for _, file := range files {
		cgroup, err := readFile(file, 64<<10)
		if err != nil {
			continue // it has ended
		}
		id := of(containerIDs(string(cgroup)))
		if id == "" {
			continue
		}
		stat, err := readFile(path.Dir(file)+"/stat", 4<<10)
		began := startOf(string(stat))
		if _, known := first[id]; err == nil && (!known || began < since[id]) {
			pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
			first[id], since[id] = Running{id, pid}, began
		}
	}
	return slices.SortedFunc(maps.Values(first), func(a, b Running) int { return cmp.Compare(a.PID, b.PID) }), nil
}

// startOf returns when a process started, in clock ticks since the boot: field 22 of proc_pid_stat(5).
func startOf(stat string) uint64 {
	const afterName = 22 - 3 // the name of the program is field 2, and may have any characters
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= afterName {
		return math.MaxUint64
	}
	n, err := strconv.ParseUint(fields[afterName], 10, 64)
	if err != nil {
		return math.MaxUint64
	}
	return n
}

const hexDigits = "0123456789abcdef"

// containerIDs returns the IDs of containers in the text of a process's cgroup, the innermost last: of ID,
// docker-ID.scope, libpod-ID, crio-ID.scope and cri-containerd-ID.scope. conmon is a process of the host that watches a
// container of podman or CRI-O, in a cgroup libpod-conmon-ID.scope.
func containerIDs(cgroup string) (ids []string) {
	isEnd := func(r rune) bool { return r == '/' || r == ':' || r == '\n' }
	for part := range strings.FieldsFuncSeq(cgroup, isEnd) {
		if strings.Contains(part, "conmon-") {
			continue
		}
		for word := range strings.FieldsFuncSeq(part, func(r rune) bool { return r == '-' || r == '.' }) {
			if len(word) >= shortestID && strings.Trim(word, hexDigits) == "" {
				ids = append(ids, word)
			}
		}
	}
	return ids
}
