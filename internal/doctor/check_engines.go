package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/phrase"
	"github.com/rdma-dev/dra-driver-rdma/internal/runtimes"
)

// checkEngines checks whether the installed runtimes can read the RDMA specs.
func checkEngines(f *facts, out *findings) {
	for _, e := range f.engines {
		out.add(e.check(f.host, f.specs)...)
	}
	for _, d := range f.daemons {
		if f.host.Local && !f.installed(d.runtime) {
			out.add(found("runtime-unknown", Info, d.String()+" is not in the search path").
				because("its version and the CDI version that it reads are unknown").
				fix(d.askVersion()))
		}
	}
	if f.host.Local && len(*out) == 0 {
		out.add(found("runtime-none", Info, "no container runtime in the search path").
			because("looked for podman, containerd, dockerd and crio").
			fix("command -v podman containerd dockerd crio"))
	}
}

// askVersion returns the command that prints a daemon's version. Root must not run a program of a user.
func (d daemon) askVersion() string {
	if d.process.ofHost() {
		return fmt.Sprintf("/proc/%d/exe --version", d.pid)
	}
	return d.name + " --version"
}

// check checks whether the runtime can read specs.
func (e engine) check(host *reader, specs specFiles) findings {
	name := e.runtime + " " + e.version
	switch {
	case e.unknown != nil:
		return findings{found("runtime-unknown", Info, name+" is unknown").
			because("%s", e.unknown).fix(e.runtime + " --version")}
	case e.target.MaxCDI == "":
		return findings{found("runtime-no-cdi", Warning, name+" does not support CDI").
			because("it %s", e.target.Note).fix(upgradeCommands[e.runtime])}
	case !e.cdiOn(host):
		off := cdiOff[e.runtime]
		return findings{found("runtime-cdi-off", Warning, "CDI is disabled in the configuration of "+name).
			because("%s", off.reason).fix(off.commands...)}
	}
	dirs := strings.Join(e.target.Dirs, " and ")
	var out findings
	var elsewhere []string
	for _, s := range specs.rdma() {
		if err := e.target.Check(s.spec); err != nil {
			out.add(found("runtime-too-old", Error, name+" cannot read a spec").
				about(s.path).because("%s", strings.ReplaceAll(err.Error(), "\n", "; ")).
				fix(s.rewrite("--target", e.target.String())))
		}
		if !slices.Contains(e.target.Dirs, s.dir) {
			elsewhere = append(elsewhere, s.path)
		}
	}
	if len(elsewhere) > 0 {
		out.add(found("runtime-dirs", Warning, name+" does not read the directory of "+phrase.Count(len(elsewhere), "spec")).
			about(elsewhere...).
			because("it reads %s only", dirs).
			fix("cdi-gen generate --output " + e.target.Dirs[0]))
	}
	if len(out) == 0 {
		out.add(found("runtime-ok", OK, name+" reads CDI up to "+e.target.MaxCDI+" from "+dirs))
	}
	return out
}

// upgradeCommands install a newer release, or list the available releases if the distribution's own may be too old.
var upgradeCommands = map[string]string{
	runtimes.Podman:     "apt-get install podman || dnf upgrade podman",
	runtimes.Containerd: "apt-cache policy containerd.io containerd || dnf list --showduplicates containerd.io",
	runtimes.Docker:     "apt-cache policy docker-ce docker.io || dnf list --showduplicates docker-ce",
	runtimes.CRIO:       "apt-cache policy cri-o || dnf list --showduplicates cri-o",
}

// cdiOff says what happens where CDI is disabled by default, and how to enable it.
var cdiOff = map[string]struct {
	reason   string
	commands []string
}{
	runtimes.Containerd: {
		"containerd 1.7 ignores CDI unless enable_cdi is true: a container starts without the " +
			"devices that it requested, and no error says so",
		[]string{"cdi-gen configure containerd", "systemctl restart containerd"},
	},
	runtimes.Docker: {
		"before 28.2 the feature cdi is off by default: --device vendor/class=name fails",
		[]string{"cdi-gen configure docker", "systemctl restart docker"},
	},
}

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
func findEngines(ctx context.Context, host *reader) []engine {
	if !host.Local || host.Run == nil {
		host.addUnseen("versions of container runtimes",
			errors.New("cdi-gen runs programs of a host on the host itself only"))
		return nil
	}
	var engines []engine
	for _, d := range daemonKinds {
		ctx, cancel := context.WithTimeout(ctx, versionTimeout)
		out, err := host.Run(ctx, d.name, "--version")
		cancel()
		switch {
		case errors.Is(err, exec.ErrNotFound):
		case err != nil:
			host.addUnseen("version of "+d.name, fmt.Errorf("run %s --version: %w", d.name, err))
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

func newEngine(runtime, output string) engine {
	e := engine{runtime: runtime, version: firstLine(output)}
	version := runtimes.VersionOf(output)
	if version == "" {
		e.unknown = errors.New("its version cannot be read")
		return e
	}
	e.version = version
	e.target, e.unknown = runtimes.Detect(runtime, output)
	return e
}

const containerdConfig = "/etc/containerd/config.toml"

var enableCDI = regexp.MustCompile(`(?m)^\s*enable_cdi\s*=\s*(true|false)`)

// cdiOn reports whether the configuration of an engine enables CDI. If the configuration file cannot be read, cdiOn
// assumes that it does, and the file is recorded as unseen.
func (e engine) cdiOn(host *reader) bool {
	seen := len(host.unseen)
	switch e.runtime {
	case runtimes.Containerd:
		text, _ := host.optional(containerdConfig)
		if m := enableCDI.FindStringSubmatch(text); m != nil {
			return m[1] == "true"
		}
	case runtimes.Docker:
		text, _ := host.optional(dockerConfig)
		var config struct {
			Features struct{ CDI *bool }
		}
		if json.Unmarshal([]byte(text), &config) == nil && config.Features.CDI != nil {
			return *config.Features.CDI
		}
	}
	return e.target.OnByDefault || len(host.unseen) > seen
}
