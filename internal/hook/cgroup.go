package hook

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/mountinfo"
)

// unenforceable is the reason why no limit can be set for a container. It is not a fault.
type unenforceable struct{ reason string }

func (u *unenforceable) Error() string { return u.reason }

// membership is the cgroup of a process for the rdma controller.
type membership struct {
	path    string // below the root of the hierarchy, as seen in the reader's namespace
	unified bool   // cgroup v2; in v1 one hierarchy has the controller
}

// parseMembership parses /proc/<pid>/cgroup. A v1 hierarchy with the rdma controller wins, because a controller is in
// only one hierarchy.
func parseMembership(text string) (m membership, found bool) {
	for line := range strings.SplitSeq(text, "\n") {
		id, rest, _ := strings.Cut(line, ":")
		controllers, path, ok := strings.Cut(rest, ":")
		switch {
		case !ok || !strings.HasPrefix(path, "/"):
		case slices.Contains(strings.Split(controllers, ","), "rdma"):
			return membership{path, false}, true
		case id == "0" && controllers == "":
			m, found = membership{path, true}, true
		}
	}
	return m, found
}

// within reports whether a path is dir or below it.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// cgroup is a directory of a cgroup file system.
type cgroup struct {
	mount   string // the mount point of the file system
	below   string // the path below the mount point; it starts with a slash
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
	// A runtime that does not know the hierarchy leaves all containers in its own cgroup. A limit there would hold for
	// the whole node.
	if own.unified == container.unified && within(own.path, container.path) {
		return cgroup{}, &unenforceable{fmt.Sprintf("the container has no cgroup of its own: it shares %q with its runtime",
			container.path)}
	}
	return mounted(f, container, pid)
}

// mounted finds the directory of a cgroup. It must contain the process, because parts of the hierarchy may be mounted
// elsewhere. The usual mount points come first: reading all mounts of the host is slow.
func mounted(f Files, m membership, pid int) (cgroup, error) {
	usual := []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}
	if !m.unified {
		usual = []string{"/sys/fs/cgroup/rdma"}
	}
	for _, mount := range usual {
		if c := (cgroup{mount, m.path, m.unified}); c.has(f, pid) {
			return c, nil
		}
	}
	text, err := f.Read("/proc/self/mountinfo")
	if err != nil {
		return cgroup{}, wrap("read /proc/self/mountinfo", err)
	}
	for mount := range mountinfo.Parse(text) {
		isOurs := mount.Kind == "cgroup2"
		if !m.unified {
			isOurs = mount.Kind == "cgroup" && slices.Contains(strings.Split(mount.FileSystemOptions, ","), "rdma")
		}
		c := cgroup{mount.Point, strings.TrimPrefix(m.path, strings.TrimSuffix(mount.Root, "/")), m.unified}
		if isOurs && within(m.path, mount.Root) && c.has(f, pid) {
			return c, nil
		}
	}
	return cgroup{}, &unenforceable{fmt.Sprintf("no mounted cgroup file system has the container's cgroup %q", m.path)}
}

// has reports whether a process is in the cgroup.
func (c cgroup) has(f Files, pid int) bool {
	procs, err := f.Read(c.dir() + "/cgroup.procs")
	return err == nil && slices.Contains(strings.Fields(procs), strconv.Itoa(pid))
}

// enable enables the rdma controller for the cgroup, from the root down, as runtimes do for the controllers that they
// know. The kernel refuses if it is not safe: if a cgroup has both processes and children.
func (c cgroup) enable(f Files) error {
	if !c.unified {
		return &unenforceable{fmt.Sprintf("the container is in the cgroup %q, which has no limits", c.below)}
	}
	controllers, err := f.Read(c.mount + "/cgroup.controllers")
	if err != nil {
		return wrap("read "+c.mount+"/cgroup.controllers", err)
	}
	if !slices.Contains(strings.Fields(controllers), "rdma") {
		return &unenforceable{"the kernel has no rdma controller (CONFIG_CGROUP_RDMA)"}
	}
	for end := 0; end < len(c.below); end++ {
		if c.below[end] != '/' {
			continue
		}
		path := c.mount + c.below[:end] + "/cgroup.subtree_control"
		enabled, err := f.Read(path)
		if err == nil && slices.Contains(strings.Fields(enabled), "rdma") {
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
	reason := err.Error()
	switch {
	case errors.Is(err, unix.EBUSY):
		reason += ": this cgroup has processes of its own"
	case denied(err):
		reason += ": only root can enable it"
	}
	return &unenforceable{"the rdma controller is not enabled for the container: write +rdma to " + path + ": " + reason}
}
