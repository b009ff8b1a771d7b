package runtimes

import (
	"fmt"
	"slices"
	"strings"
)

// Target is what a release of a runtime reads.
type Target struct {
	// Runtime is podman, containerd, docker or crio.
	Runtime string `json:"runtime"`
	// Version is the release that was asked for.
	Version string `json:"version"`
	// MaxCDI is the highest CDI version it reads, empty if it has no CDI.
	MaxCDI string `json:"maxCDI,omitempty"`
	// Library is the version of the CDI library that it is built with, empty if it has no CDI.
	Library string `json:"library,omitempty"`
	// Dirs are the directories it reads, the one of highest priority last.
	Dirs []string `json:"dirs,omitempty"`
	// OnByDefault says whether it reads CDI specs without being configured to.
	OnByDefault bool `json:"onByDefault"`
	// Note is what else there is to know; where CDI is off, how to turn it on.
	Note string `json:"note,omitempty"`
}

// String is the form that Lookup reads.
func (t Target) String() string { return t.Runtime + "-" + t.Version }

// AtLeast reports whether the release is a version, or newer.
func (t Target) AtLeast(parts ...int) bool {
	have, err := parseVersion(t.Version)
	return err == nil && have.compare(v(parts...)) >= 0
}

// Lookup finds a runtime by name and version: "podman-4.3", "containerd-1.7.12",
// "docker-28", "crio-1.31", "podman-main".
//
// Parts of a version that are left out are zero, since that is the oldest release
// that bears the name. Between two releases of the table the older one's row
// holds, and a release newer than all of them reads at least what the newest
// does. An unknown runtime, and a version older than the oldest known one or of
// a major version far beyond the newest, is an error that lists those known.
func Lookup(target string) (Target, error) {
	runtime, release, _ := strings.Cut(strings.ToLower(target), "-")
	if runtime == "cri" && strings.HasPrefix(release, "o-") {
		runtime, release = CRIO, strings.TrimPrefix(release, "o-")
	}
	rows := rowsOf(runtime)
	if len(rows) == 0 {
		return Target{}, unknown(target, "no such runtime")
	}
	want, err := parseVersion(release)
	if err != nil {
		return Target{}, unknown(target, err.Error())
	}
	if want == development {
		return rows[len(rows)-1].target(release), nil
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return r.from == development })
	if newest := rows[len(rows)-1].from; want[0] > newest[0]+farMajors {
		return Target{}, unknown(target, "no such version")
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return r.from.compare(want) > 0 })
	if len(rows) == 0 {
		return Target{}, unknown(target, "older than the oldest known version")
	}
	return rows[len(rows)-1].target(want.String()), nil
}

// farMajors is how many major versions ahead of the table a version is taken for
// a release and not for a typing error.
const farMajors = 4

// Known lists the targets of the table, in its order.
func Known() []string {
	list := make([]string, 0, len(table))
	for _, r := range table {
		list = append(list, r.runtime+"-"+r.from.String())
	}
	return list
}

func unknown(target, why string) error {
	return fmt.Errorf("look up target %q: %s; known: %s", target, why, strings.Join(Known(), ", "))
}

func rowsOf(runtime string) []row {
	return slices.DeleteFunc(slices.Clone(table), func(r row) bool { return r.runtime != runtime })
}

func (r row) target(release string) Target {
	return Target{
		Runtime: r.runtime, Version: release,
		MaxCDI: r.max, Library: r.library, Dirs: slices.Clone(r.dirs), OnByDefault: r.on, Note: r.note,
	}
}
