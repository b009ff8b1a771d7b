package runtimes

import (
	"fmt"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"
)

// Releases of the CDI library that changed what a runtime does with the same files. Their sources are
// pkg/cdi/spec-dirs.go and pkg/parser of the library; TestLibraries asks the releases themselves.
var (
	// takesLetter is the first release that does not panic on a device name of one letter.
	takesLetter = v(0, 5, 0)
	// skipsMissing is the first release that reads the directories after a missing one.
	skipsMissing = v(0, 5, 2)
	// trimsVersion is the first release that takes a cdiVersion with a "v" before it.
	trimsVersion = v(0, 5, 4)
	// followsLink is the first release that reads a directory behind a symbolic link. From there on, a file in the place
	// of a directory hides the directories after it.
	followsLink = v(1, 1, 1)
)

// FollowsLink is the first release of the CDI library that reads a directory behind a symbolic link.
var FollowsLink = followsLink.full()

// full has a patch version, as releases of the library have.
func (a version) full() string { return fmt.Sprintf("%d.%d.%d", a[0], a[1], a[2]) }

// before reports whether the target has an older release of the CDI library.
func (t Target) before(release version) bool {
	have, err := parseVersion(t.Library)
	return err == nil && have.compare(release) < 0
}

// DirState is what stands in the place of a directory of specs.
type DirState int

// The states. DirLink is a link that leads to a directory.
const (
	DirThere DirState = iota
	DirMissing
	DirLink
	DirOther
)

// Dir is a directory of specs of a host.
type Dir struct {
	Path  string
	State DirState
}

// Unread is a directory that a target does not read, and the reason.
type Unread struct{ Path, Reason string }

// Unread returns the directories that the target does not read though it is told to. The dirs are all that it is told
// to read, the one of highest priority last. A missing directory is no fault of its own, but can hide others.
func (t Target) Unread(dirs []Dir) []Unread {
	var list []Unread
	for i, dir := range dirs {
		if dir.State == DirLink && t.before(followsLink) {
			list = append(list, Unread{dir.Path, fmt.Sprintf("it is a symbolic link, which its CDI library %s does not "+
				"follow (%s does)", t.Library, FollowsLink)})
		}
		if dir.State == DirOther {
			list = append(list, Unread{dir.Path, "it is no directory"})
		}
		if dir.State == DirMissing && t.before(skipsMissing) || dir.State == DirOther && !t.before(followsLink) {
			for _, hidden := range dirs[i+1:] {
				list = append(list, Unread{hidden.Path, fmt.Sprintf("its CDI library %s stops at %s, which is %s",
					t.Library, dir.Path, map[DirState]string{DirMissing: "missing", DirOther: "no directory"}[dir.State])})
			}
			break
		}
	}
	return list
}

// CheckDir says why the target does not read a directory. all are the standard directories as they are on the host.
func (t Target) CheckDir(dir string, all []Dir) error {
	if !slices.Contains(t.Dirs, dir) {
		return fmt.Errorf("%s reads %s only", t, strings.Join(t.Dirs, " and "))
	}
	all = slices.DeleteFunc(slices.Clone(all), func(d Dir) bool { return !slices.Contains(t.Dirs, d.Path) })
	for _, u := range t.Unread(all) {
		if u.Path == dir {
			return fmt.Errorf("%s does not read it: %s", t, u.Reason)
		}
	}
	return nil
}

// checkLibrary says why the CDI library of the target refuses a spec that newer libraries take, or panics on it,
// whatever CDI version it needs. Kinds on which old libraries panic never get here: package cdi refuses them for every
// target.
func (t Target) checkLibrary(spec *specs.Spec) error {
	if strings.HasPrefix(spec.Version, "v") && t.before(trimsVersion) {
		return fmt.Errorf("cdiVersion %q: the CDI library %s of %s takes no version with a v", spec.Version, t.Library, t)
	}
	for i := range spec.Devices {
		if name := spec.Devices[i].Name; len(name) == 1 && t.before(takesLetter) {
			return fmt.Errorf("device %q: the CDI library %s of %s panics on a name of one letter", name, t.Library, t)
		}
	}
	return nil
}
