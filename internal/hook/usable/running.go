package usable

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
	p.Env, p.Cwd = strings.Split(string(env), "\x00"), "/"
	p.UIDs, _ = readRanges(proc + "/uid_map")
	p.GIDs, _ = readRanges(proc + "/gid_map")
	return &Container{Root: root, Process: p, Sys: "/sys"}, nil
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
	const fileSystem, override = 3, 1 // the ID that file systems check, and CAP_DAC_OVERRIDE
	uids, gids := ids("Uid"), ids("Gid")
	if len(uids) > fileSystem && len(gids) > fileSystem {
		p.UID, p.GID, p.Groups, p.Unknown = uids[fileSystem], gids[fileSystem], ids("Groups"), ""
	}
	caps, err := strconv.ParseUint(strings.Join(fields["CapEff"], ""), 16, 64)
	p.Override = err == nil && caps&(1<<override) != 0
	return p
}

// FindContainer returns the first process of a container. name is its process ID, or the beginning of the container's
// ID, of at least 12 digits.
func FindContainer(name string) (pid int, err error) {
	if pid, err := strconv.Atoi(name); err == nil && pid > 0 && name[0] != '0' && len(name) < 10 {
		return pid, nil
	}
	const shortest = 12
	if len(name) < shortest || strings.Trim(name, "0123456789abcdef") != "" {
		return 0, errors.New("want a process ID, or at least 12 digits of a container's ID")
	}
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return 0, err
	}
	var pids []int
	for _, file := range files {
		text, err := readFile(file, 64<<10)
		id, _ := strconv.Atoi(strings.Split(file, "/")[2])
		if err == nil && hasContainer(string(text), name) {
			pids = append(pids, id)
		}
	}
	if len(pids) == 0 {
		return 0, errors.New("no process has a cgroup of this container: is it running on this host?")
	}
	return slices.Min(pids), nil
}

// hasContainer reports whether a component of a process's cgroup is that of a container: ID, docker-ID.scope,
// libpod-ID, crio-ID.scope, or cri-containerd-ID.scope.
func hasContainer(cgroup, id string) bool {
	isEnd := func(r rune) bool { return r == '/' || r == '-' || r == '.' || r == ':' || r == '\n' }
	for part := range strings.FieldsFuncSeq(cgroup, isEnd) {
		if strings.HasPrefix(part, id) {
			return true
		}
	}
	return false
}
