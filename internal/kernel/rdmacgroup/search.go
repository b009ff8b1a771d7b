package rdmacgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podcgroup"
)

// The bounds of a search. A node has a few hundred cgroups in each hierarchy.
const (
	maxDepth = 32
	maxDirs  = 16384
)

// search looks for pods and containers below a /sys/fs/cgroup.
type search struct {
	fs         fs.FS
	pods       map[string]bool // by UID
	containers []container
	left       int   // directories that may still be read
	err        error // the reason why the result may be incomplete
}

// container is the cgroup of a container.
type container struct{ dir, pod, id string }

func (s *search) isVersion2() bool {
	_, err := fs.Stat(s.fs, "cgroup.controllers")
	return err == nil
}

// walk searches hierarchies. It continues after an error.
func (s *search) walk(roots ...string) {
	for _, root := range roots {
		s.left = maxDirs
		s.into(root, "", 0)
	}
}

// into searches a cgroup and all cgroups below it. pod is the UID of the cgroup's pod, or "" above pods.
func (s *search) into(dir, pod string, depth int) {
	if id := containerID(path.Base(dir)); id != "" && pod != "" {
		s.containers = append(s.containers, container{dir, pod, id})
		return
	}
	if s.left--; s.left < 0 || depth > maxDepth {
		s.err = fmt.Errorf("read cgroup %q: there are more cgroups than the driver looks at", dir)
		return
	}
	entries, err := fs.ReadDir(s.fs, dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // a missing cgroup has ended meanwhile
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
			s.pods[uid] = true
		}
		s.into(path.Join(dir, e.Name()), below, depth+1)
	}
}

var containerName = regexp.MustCompile(`^(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?$`)

// containerID returns the ID in the name of a container's cgroup, or "". The cgroup of a container's monitor in CRI-O
// is not a container's.
func containerID(name string) string {
	if m := containerName.FindStringSubmatch(name); m != nil && !strings.HasPrefix(name, "crio-conmon-") {
		return m[1]
	}
	return ""
}
