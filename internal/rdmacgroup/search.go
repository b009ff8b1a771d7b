package rdmacgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/podcgroup"
)

// The bounds of a search: a node has a few hundred cgroups in each hierarchy.
const (
	maxDepth = 32
	maxDirs  = 16384
)

// search looks for pods and containers below a /sys/fs/cgroup.
type search struct {
	fs fs.FS
	// pod and container, unless nil, are called for each that is found.
	pod       func(uid string)
	container func(dir, pod, id string)

	left int   // directories that may still be read
	err  error // why something may be missing
}

func (s *search) isVersion2() bool {
	_, err := fs.Stat(s.fs, "cgroup.controllers")
	return err == nil
}

// walk looks into hierarchies. It goes on after an error.
func (s *search) walk(roots ...string) {
	for _, root := range roots {
		s.left = maxDirs
		s.into(root, "", 0)
	}
}

// into looks into a cgroup and those below it. Pod is the UID of the pod that it
// belongs to, empty above pods.
func (s *search) into(dir, pod string, depth int) {
	if id := containerID(path.Base(dir)); id != "" && pod != "" {
		if s.container != nil {
			s.container(dir, pod, id)
		}
		return
	}
	if s.left--; s.left < 0 || depth > maxDepth {
		s.err = fmt.Errorf("read cgroup %q: there are more cgroups than the driver looks at", dir)
		return
	}
	entries, err := fs.ReadDir(s.fs, dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // else it has ended
			s.err = fmt.Errorf("read cgroup %q: %w", dir, err)
		}
		return
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		below := pod
		if uid := podcgroup.UID(e.Name()); uid != "" {
			below = uid
			if s.pod != nil {
				s.pod(uid)
			}
		}
		s.into(path.Join(dir, e.Name()), below, depth+1)
	}
}

var containerName = regexp.MustCompile(`^(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?$`)

// containerID returns the ID in the name of a container's cgroup. CRI-O's monitor of a
// container is none.
func containerID(name string) string {
	if m := containerName.FindStringSubmatch(name); m != nil && !strings.HasPrefix(name, "crio-conmon-") {
		return m[1]
	}
	return ""
}
