package runtimeconf

import (
	"io/fs"
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
	// unread is why the variables of a running daemon are not known: they are its user's and root's to read.
	unread error
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

// MaxProcesses is the largest number of processes of a 64-bit kernel (PID_MAX_LIMIT), with the other entries of /proc.
const MaxProcesses = 4<<20 + 1024

// findDaemons searches the host's /proc for the daemons of root and of a user. It reads the arguments and the
// environment of no other process: they are memory of their owner, which FUSE may back. A process of a container is
// none of them.
func findDaemons(host Host, user int) (found []daemon) {
	entries, err := hostfs.ReadDir(host, "/proc", MaxProcesses)
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
		uid, ok := UserOf(host, dir, status)
		if !ok || len(Fields(status, "NSpid:")) != 1 || uid != 0 && uid != user {
			continue
		}
		line := host.text(path.Join(dir, "cmdline"))
		if line == "" {
			continue // it has ended, or may not be read
		}
		d := daemon{name: name, uid: uid, args: strings.Split(line, "\x00"), from: "the running " + name}
		d.readVariables(host, path.Join(dir, "environ"))
		found = append(found, d)
	}
	return found
}

func (d *daemon) readVariables(host Host, name string) {
	d.env = map[string]string{}
	text, err := host.read(name)
	d.unread = err
	for variable := range strings.SplitSeq(string(text), "\x00") {
		name, value, _ := strings.Cut(variable, "=")
		d.env[name] = value
	}
}

// UserOf returns the user of a process with a directory in /proc and a status. It is false for a process whose user
// started another's program (set-user-ID): its name and its arguments are that user's choice, under root's number.
func UserOf(root fs.ReadLinkFS, dir, status string) (uid int, ok bool) {
	ids := Fields(status, "Uid:")
	if len(ids) < 2 || ids[0] != ids[1] {
		return -1, false
	}
	if program, err := hostfs.Stat(root, path.Join(dir, "exe")); err == nil && program.Mode()&fs.ModeSetuid != 0 {
		return -1, false
	}
	uid, err := strconv.Atoi(ids[1])
	return uid, err == nil
}

// text returns the content of a file, "" if it cannot be read.
func (h Host) text(name string) string {
	data, _ := h.read(name) // the process has ended, or is somebody else's
	return string(data)
}

// Fields returns the fields of the first line that begins with a key, without the key.
func Fields(text, key string) []string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return strings.Fields(rest)
		}
	}
	return nil
}
