package runtimes

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// programs are the programs whose --version is the release of a runtime.
var programs = map[string]string{Podman: "podman", Containerd: "containerd", Docker: "dockerd", CRIO: "crio"}

// Program returns the program of a runtime, "" for an unknown runtime.
func Program(runtime string) string { return programs[runtime] }

// versionPattern matches a version in the output of --version:
// "podman version 4.3.1", "containerd github.com/containerd/containerd/v2 v2.0.0 a1b2",
// "Docker version 28.0.1, build 068a01e", "crio version 1.31.0".
var versionPattern = regexp.MustCompile(`\bv?(\d+\.\d+(?:\.\d+)*)`)

// VersionOf finds the version in the output of a runtime's --version, "" if there is none. Only the first line counts.
func VersionOf(output string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(output), "\n")
	if m := versionPattern.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	return ""
}

// Detect returns the release of a runtime from the output of its --version.
func Detect(runtime, output string) (Target, error) {
	version := VersionOf(output)
	if version == "" {
		return Target{}, fmt.Errorf("detect %s: %w", runtime, errors.New("its version cannot be read"))
	}
	return Lookup(runtime + "-" + version)
}
