package hook

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unenforceable is why no limit can be set for a container, although nothing is broken.
type unenforceable struct{ reason string }

func (u *unenforceable) Error() string { return u.reason }

// membership says in which cgroup a process is, for the rdma controller.
type membership struct {
	path    string // below the root of the hierarchy, as the reader's namespace has it
	unified bool   // cgroup v2; v1 has a hierarchy that holds the controller
}

// parseMembership reads /proc/<pid>/cgroup. A hierarchy of v1 that holds the rdma
// controller wins: a controller is in one hierarchy only.
func parseMembership(text string) (m membership, found bool) {
	for len(text) > 0 {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		id, rest, _ := strings.Cut(line, ":")
		controllers, path, ok := strings.Cut(rest, ":")
		switch {
		case !ok || !strings.HasPrefix(path, "/"):
		case hasWord(controllers, "rdma", ","):
			return membership{path, false}, true
		case id == "0" && controllers == "":
			m, found = membership{path, true}, true
		}
	}
	return m, found
}

// hasWord reports whether a list has a word.
func hasWord(list, word, separator string) bool {
	for more := true; more; {
		var w string
		w, list, more = strings.Cut(list, separator)
		if strings.TrimSpace(w) == word {
			return true
		}
	}
	return false
}

// within reports whether a path is dir or below it.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// cgroup is a directory of a cgroup file system.
type cgroup struct {
	mount   string // where the file system is mounted
	below   string // the directory, as a path below it that starts with a slash
	unified bool
}

func (c cgroup) dir() string { return c.mount + c.below }

// findCgroup finds the cgroup of a container's process.
func findCgroup(f Files, pid int) (cgroup, error) {
	of := func(process string) (membership, error) {
		path := "/proc/" + process + "/cgroup"
		text, err := f.Read(path)
		if err == unix.ENOENT || err == unix.ESRCH {
			err = ErrGone
		}
		m, found := parseMembership(text)
		if err == nil && !found {
			err = &unenforceable{"the kernel has no cgroup with the rdma controller"}
		}
		return m, wrap("read "+path, err)
	}
	container, err := of(strconv.Itoa(pid))
	if err != nil {
		return cgroup{}, err
	}
	own, err := of("self")
	if err != nil {
		return cgroup{}, err
	}
	// A runtime that does not know the hierarchy leaves the container in its own
	// cgroup, with all others: a limit there would be one for the node.
	if own.unified == container.unified && within(own.path, container.path) {
		return cgroup{}, &unenforceable{"the container has no cgroup of its own: it is in " + strconv.Quote(container.path) + ", with its runtime"}
	}
	return mounted(f, container, pid)
}

// usual are the places where cgroup file systems are mounted nearly always. A look
// there spares a look at every mount of the host.
func usual(unified bool) []string {
	if unified {
		return []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}
	}
	return []string{"/sys/fs/cgroup/rdma"}
}

// mounted finds the directory of a cgroup. The one with the process in it is the
// right one, even where a part of the hierarchy is mounted elsewhere.
func mounted(f Files, m membership, pid int) (cgroup, error) {
	for _, mount := range usual(m.unified) {
		if c := (cgroup{mount, m.path, m.unified}); c.has(f, pid) {
			return c, nil
		}
	}
	text, err := f.Read("/proc/self/mountinfo")
	if err != nil {
		return cgroup{}, wrap("read /proc/self/mountinfo", err)
	}
	for len(text) > 0 {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		root, mount, ok := parseMount(line, m.unified)
		if !ok || !within(m.path, root) {
			continue
		}
		c := cgroup{mount, strings.TrimPrefix(m.path, strings.TrimSuffix(root, "/")), m.unified}
		if c.has(f, pid) {
			return c, nil
		}
	}
	return cgroup{}, &unenforceable{"the container's cgroup " + strconv.Quote(m.path) + " is not in any cgroup file system that is mounted here"}
}

// has reports whether a process is in the cgroup.
func (c cgroup) has(f Files, pid int) bool {
	procs, err := f.Read(c.dir() + "/cgroup.procs")
	return err == nil && hasWord(procs, strconv.Itoa(pid), "\n")
}

// parseMount reads a line of /proc/self/mountinfo, proc_pid_mountinfo(5): which part
// of the hierarchy with the rdma controller is mounted where. ok is false for others.
func parseMount(line string, unified bool) (root, mount string, ok bool) {
	front, back, _ := strings.Cut(line, " - ")
	kind, rest, _ := strings.Cut(back, " ")
	_, options, _ := strings.Cut(rest, " ")
	if unified && kind != "cgroup2" || !unified && (kind != "cgroup" || !hasWord(options, "rdma", ",")) {
		return "", "", false
	}
	for range 3 { // mount ID, parent ID, device
		_, front, _ = strings.Cut(front, " ")
	}
	root, front, _ = strings.Cut(front, " ")
	mount, _, _ = strings.Cut(front, " ")
	root, mount = unescape(root), unescape(mount)
	return root, mount, strings.HasPrefix(root, "/") && strings.HasPrefix(mount, "/")
}

// unescape decodes the octal numbers that stand for white space and backslashes.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out = append(out, byte(n))
				i += 3
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

// enable gives the cgroup the files of the rdma controller, from the root down, as
// runtimes do for the controllers that they know. The kernel refuses where that is not
// safe, in a cgroup that has processes beside its children.
func (c cgroup) enable(f Files) error {
	if !c.unified {
		return &unenforceable{"the container is in a cgroup without limits, " + strconv.Quote(c.below)}
	}
	controllers, err := f.Read(c.mount + "/cgroup.controllers")
	if err != nil {
		return wrap("read "+c.mount+"/cgroup.controllers", err)
	}
	if !hasWord(strings.TrimSpace(controllers), "rdma", " ") {
		return &unenforceable{"the kernel has no rdma controller (CONFIG_CGROUP_RDMA)"}
	}
	for end := 0; end < len(c.below); end++ {
		if c.below[end] != '/' {
			continue
		}
		path := c.mount + c.below[:end] + "/cgroup.subtree_control"
		enabled, err := f.Read(path)
		if err == nil && hasWord(strings.TrimSpace(enabled), "rdma", " ") {
			continue
		}
		if err == nil {
			err = f.Write(path, "+rdma")
		}
		if err != nil {
			return enableError(path, err)
		}
	}
	return nil
}

func enableError(path string, err error) error {
	why := err.Error()
	switch {
	case errors.Is(err, unix.EBUSY):
		why += ": there are processes in this cgroup itself"
	case denied(err):
		why += ": only root can enable it"
	}
	return &unenforceable{"the rdma controller is not enabled for the container, and writing +rdma to " + path + " says " + why}
}
