package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/runtimes"
)

// engine is an installed container runtime.
type engine struct {
	runtime string // as package runtimes names it
	version string // as it prints it
	target  runtimes.Target
	unknown error // the reason why there is no target
}

// versionTimeout bounds a program that only prints its version.
const versionTimeout = 5 * time.Second

// findEngines runs the installed runtimes to learn their versions.
func findEngines(ctx context.Context, f *facts) []engine {
	if !f.Local || f.Run == nil {
		f.addUnseen("versions of container runtimes", errors.New("cdi-gen runs programs of a host on the host itself only"))
		return nil
	}
	var engines []engine
	for _, d := range daemonKinds {
		ctx, cancel := context.WithTimeout(ctx, versionTimeout)
		out, err := f.Run(ctx, d.name, "--version")
		cancel()
		switch {
		case errors.Is(err, exec.ErrNotFound):
		case err != nil:
			f.addUnseen("version of "+d.name, fmt.Errorf("run %s --version: %w", d.name, err))
		default:
			engines = append(engines, newEngine(d.runtime, out))
		}
	}
	return engines
}

// installed reports whether the program of a runtime is in the search path.
func (f *facts) installed(runtime string) bool {
	return slices.ContainsFunc(f.engines, func(e engine) bool { return e.runtime == runtime })
}

// versionPattern matches a version in the output of --version:
// "podman version 4.3.1", "containerd github.com/containerd/containerd/v2 v2.0.0 a1b2",
// "Docker version 28.0.1, build 068a01e", "crio version 1.31.0".
var versionPattern = regexp.MustCompile(`\bv?(\d+\.\d+(?:\.\d+)*)`)

func newEngine(runtime, output string) engine {
	e := engine{runtime: runtime, version: firstLine(output)}
	m := versionPattern.FindStringSubmatch(e.version)
	if m == nil {
		e.unknown = errors.New("its version cannot be read")
		return e
	}
	e.version = m[1]
	e.target, e.unknown = runtimes.Lookup(runtime + "-" + m[1])
	return e
}

const containerdConfig = "/etc/containerd/config.toml"

var enableCDI = regexp.MustCompile(`(?m)^\s*enable_cdi\s*=\s*(true|false)`)

// cdiOn reports whether the configuration of an engine enables CDI. If the configuration file cannot be read, cdiOn
// assumes that it does, and the file is recorded as unseen.
func (f *facts) cdiOn(e engine) bool {
	seen := len(f.unseen)
	switch e.runtime {
	case runtimes.Containerd:
		text, _ := f.optional(containerdConfig)
		if m := enableCDI.FindStringSubmatch(text); m != nil {
			return m[1] == "true"
		}
	case runtimes.Docker:
		text, _ := f.optional(dockerConfig)
		var config struct {
			Features struct{ CDI *bool }
		}
		if json.Unmarshal([]byte(text), &config) == nil && config.Features.CDI != nil {
			return *config.Features.CDI
		}
	}
	return e.target.OnByDefault || len(f.unseen) > seen
}
