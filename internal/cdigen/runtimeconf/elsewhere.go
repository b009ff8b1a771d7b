package runtimeconf

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// anyReleases stand for the installed ones, which are not known here. Where they read files differently, all of a
// runtime must agree.
var anyReleases = map[string][]string{
	runtimes.Podman:     {"5.6", "main"},
	runtimes.Docker:     {"27.5", "28.2", "29"},
	runtimes.Containerd: {"1.7", "2.2.1"},
	runtimes.CRIO:       {"1.35"},
}

// Elsewhere has a sentence for each runtime whose configuration names directories of specs, and not dir. It asks no
// runtime for its version, and leaves out what it cannot read: doctor does both.
func Elsewhere(host fs.ReadLinkFS, user User, dir string) []string {
	h := Host{ReadLinkFS: host}
	h.daemons = findDaemons(h, user.UID)
	var sentences []string
	for _, runtime := range []string{runtimes.Podman, runtimes.Docker, runtimes.Containerd, runtimes.CRIO} {
		var c *Config
		for _, release := range anyReleases[runtime] {
			target, err := runtimes.Lookup(runtime + "-" + release)
			if err == nil {
				c, err = readWith(h, target, user)
			}
			if err != nil || c.DirsFile == "" || c.Reads(dir) {
				c = nil
				break
			}
		}
		if c == nil {
			continue
		}
		where := "no directory"
		if len(c.Dirs) > 0 {
			where = strings.Join(c.Dirs, " and ")
		}
		sentences = append(sentences, fmt.Sprintf("%s does not read %s: %s names %s for CDI specs", runtime, dir, c.DirsFile,
			where))
	}
	return sentences
}

// Unread has a sentence for a directory that no runtime reads by default, unless the configuration of one names it, in
// any release.
func Unread(host fs.ReadLinkFS, user User, dir string) string {
	h := Host{ReadLinkFS: host}
	h.daemons = findDaemons(h, user.UID)
	for runtime, releases := range anyReleases {
		for _, release := range releases {
			target, err := runtimes.Lookup(runtime + "-" + release)
			if err != nil {
				continue
			}
			if c, err := readWith(h, target, user); err == nil && c.Reads(dir) {
				return ""
			}
		}
	}
	return fmt.Sprintf("no container runtime here reads %s: they read %s and %s, or what their configuration names",
		dir, cdi.StaticDir, cdi.DynamicDir)
}

// Reads reports whether a directory is among those of the configuration.
func (c *Config) Reads(dir string) bool { return Among(c.Dirs, dir) }

// Among reports whether a directory is one of some, by any of its names.
func Among(dirs []string, dir string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return RunDir(d) == RunDir(dir) })
}

// RunDir gives /var/run, which is a link to /run, its other name.
func RunDir(dir string) string {
	if rest, ok := strings.CutPrefix(path.Clean(dir), "/var/run/"); ok {
		return "/run/" + rest
	}
	return path.Clean(dir)
}
