package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/runtimes"
)

// checkEngines looks whether the installed runtimes can read the RDMA specs.
func checkEngines(f *facts) []Finding {
	var findings []Finding
	for _, e := range f.engines {
		findings = append(findings, f.judgeEngine(e)...)
	}
	for _, d := range f.daemons {
		if f.Local && !slices.ContainsFunc(f.engines, func(e engine) bool { return e.runtime == d.runtime }) {
			findings = append(findings, found(RuntimeUnknown, Info, d.String()+" is not in the search path").
				because("its version is not known, nor which CDI version it reads").
				fix(d.askVersion()))
		}
	}
	if f.Local && len(findings) == 0 {
		findings = append(findings, found(RuntimeNone, Info, "no container runtime in the search path").
			because("looked for podman, containerd, dockerd and crio").
			fix("command -v podman containerd dockerd crio"))
	}
	return findings
}

// askVersion is the command that prints a daemon's version. Root does not run what a user runs.
func (d daemon) askVersion() string {
	if d.process.ofHost() {
		return fmt.Sprintf("/proc/%d/exe --version", d.pid)
	}
	return d.name + " --version"
}

// judgeEngine looks at one runtime.
func (f *facts) judgeEngine(e engine) []Finding {
	name := e.runtime + " " + e.version
	switch {
	case e.unknown != nil:
		return []Finding{found(RuntimeUnknown, Info, name+" is not known").
			because("%s", e.unknown).fix(e.runtime + " --version")}
	case e.target.MaxCDI == "":
		return []Finding{found(RuntimeNoCDI, Warning, name+" has no CDI").
			because("it %s", e.target.Note).fix(upgradeCommands[e.runtime])}
	case !f.cdiOn(e):
		return []Finding{found(RuntimeCDIOff, Warning, name+" does not read CDI specs as it is configured").
			because("%s", cdiOffReasons[e.runtime]).fix(cdiOnCommands[e.runtime]...)}
	}
	findings := append(f.tooOld(e, name), f.otherDirs(e, name)...)
	if len(findings) == 0 {
		findings = append(findings, found(RuntimeOK, OK, fmt.Sprintf("%s reads CDI up to %s from %s", name, e.target.MaxCDI, strings.Join(e.target.Dirs, " and "))))
	}
	return findings
}

// upgradeCommands install a newer release, or show which ones there are where the
// distribution's own may not do.
var upgradeCommands = map[string]string{
	runtimes.Podman:     "apt-get install podman || dnf upgrade podman",
	runtimes.Containerd: "apt-cache policy containerd.io containerd || dnf list --showduplicates containerd.io",
	runtimes.Docker:     "apt-cache policy docker-ce docker.io || dnf list --showduplicates docker-ce",
	runtimes.CRIO:       "apt-cache policy cri-o || dnf list --showduplicates cri-o",
}

// How CDI is turned on where it is not.
var (
	cdiOffReasons = map[string]string{
		runtimes.Containerd: "in 1.7 enable_cdi is off unless it is set: requested devices are dropped without a word, and the container starts without them",
		runtimes.Docker:     "before 28.2 it is a feature that is off unless it is set: --device vendor/class=name fails",
	}
	cdiOnCommands = map[string][]string{
		runtimes.Containerd: {
			`grep -n -e enable_cdi -e 'io.containerd.grpc.v1.cri"\]' ` + containerdConfig + " # below that section: enable_cdi = true",
			"systemctl restart containerd",
		},
		runtimes.Docker: {
			`grep -n features ` + dockerConfig + ` # add: "features": {"cdi": true}`,
			"systemctl restart docker",
		},
	}
)

// tooOld finds specs that an engine refuses.
func (f *facts) tooOld(e engine, name string) []Finding {
	var findings []Finding
	for _, s := range f.specs {
		if !s.valid() || !s.rdma {
			continue
		}
		if err := e.target.Check(s.spec); err != nil {
			findings = append(findings, found(RuntimeTooOld, Error, name+" cannot read a spec").
				about(s.path).because("%s", oneLine(err)).fix(s.rewrite("--target", e.target.String())))
		}
	}
	return findings
}

// otherDirs finds specs where an engine does not look.
func (f *facts) otherDirs(e engine, name string) []Finding {
	var paths []string
	for _, s := range f.specs {
		if s.valid() && s.rdma && !slices.Contains(e.target.Dirs, s.dir) {
			paths = append(paths, s.path)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	return []Finding{found(RuntimeDirs, Warning, name+" does not look where "+plural(len(paths), "spec")+" stands").
		about(paths...).
		because("it reads %s only", strings.Join(e.target.Dirs, " and ")).
		fix("cdi-gen generate --output " + e.target.Dirs[0])}
}

// oneLine writes joined errors as one line.
func oneLine(err error) string {
	joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	if !ok {
		return err.Error()
	}
	var parts []string
	for _, e := range joined.Unwrap() {
		parts = append(parts, e.Error())
	}
	return strings.Join(parts, "; ")
}
