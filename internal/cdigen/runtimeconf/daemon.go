package runtimeconf

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// daemon is what a daemon of a runtime was started with.
type daemon struct {
	name string // of the process
	uid  int
	args arguments
	env  map[string]string
	from string // says where the arguments stand, for people
}

// started returns what root's daemon of a runtime was started with: the running one, or its unit. Of several running
// ones, as beside k3s, the unit counts.
func (h Host) started(name, unit string) daemon {
	if d, ok := h.running(name, 0); ok {
		return d
	}
	return daemon{name: name, args: unitArgs(h, unit), from: unit}
}

// running returns the one running daemon of a name and a user.
func (h Host) running(name string, uid int) (daemon, bool) {
	all := slices.DeleteFunc(slices.Clone(h.daemons), func(d daemon) bool { return d.name != name || d.uid != uid })
	if len(all) != 1 {
		return daemon{}, false
	}
	return all[0], true
}

// maxProcesses is the largest number of processes of a 64-bit kernel (PID_MAX_LIMIT), with the other entries of /proc.
const maxProcesses = 4<<20 + 1024

// findDaemons searches the host's /proc for the daemons of root and of a user. It reads the arguments and the
// environment of no other process: they are memory of their owner, which FUSE may back. A process of a container is
// none of them.
func findDaemons(host Host, user int) (found []daemon) {
	entries, err := hostfs.ReadDir(host, "/proc", maxProcesses)
	if err != nil {
		return nil // the units count
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		dir := path.Join("/proc", e.Name())
		name := strings.TrimSpace(host.text(path.Join(dir, "comm")))
		if !slices.Contains([]string{"dockerd", "containerd", "crio"}, name) {
			continue
		}
		status := host.text(path.Join(dir, "status"))
		ids, pids := fields(status, "Uid:"), fields(status, "NSpid:")
		if len(ids) < 2 || len(pids) != 1 || ids[1] != "0" && ids[1] != strconv.Itoa(user) {
			continue
		}
		line := host.text(path.Join(dir, "cmdline"))
		if line == "" {
			continue // it has ended, or may not be read
		}
		d := daemon{name: name, args: strings.Split(line, "\x00"), env: map[string]string{}, from: "the running " + name}
		d.uid, _ = strconv.Atoi(ids[1])
		for variable := range strings.SplitSeq(host.text(path.Join(dir, "environ")), "\x00") {
			name, value, _ := strings.Cut(variable, "=")
			d.env[name] = value
		}
		found = append(found, d)
	}
	return found
}

// text returns the content of a file, "" if it cannot be read.
func (h Host) text(name string) string {
	data, _ := h.read(name) // the process has ended, or is somebody else's
	return string(data)
}

// fields returns the fields of the line that begins with a key, without the key.
func fields(text, key string) []string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return strings.Fields(rest)
		}
	}
	return nil
}
