package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/runtimes"
)

// checkEngines checks whether the installed runtimes can read the RDMA specs.
func checkEngines(f *facts) []Finding {
	var findings []Finding
	for _, e := range f.engines {
		findings = append(findings, f.checkEngine(e)...)
	}
	for _, d := range f.daemons {
		if f.Local && !slices.ContainsFunc(f.engines, func(e engine) bool { return e.runtime == d.runtime }) {
			findings = append(findings, found("runtime-unknown", Info, d.String()+" is not in the search path").
				because("its version and the CDI version that it reads are unknown").
				fix(d.askVersion()))
		}
	}
	if f.Local && len(findings) == 0 {
		findings = append(findings, found("runtime-none", Info, "no container runtime in the search path").
			because("looked for podman, containerd, dockerd and crio").
			fix("command -v podman containerd dockerd crio"))
	}
	return findings
}

// askVersion returns the command that prints a daemon's version. Root must not run a program of a user.
func (d daemon) askVersion() string {
	if d.process.ofHost() {
		return fmt.Sprintf("/proc/%d/exe --version", d.pid)
	}
	return d.name + " --version"
}

// checkEngine checks one runtime.
func (f *facts) checkEngine(e engine) []Finding {
	name := e.runtime + " " + e.version
	switch {
	case e.unknown != nil:
		return []Finding{found("runtime-unknown", Info, name+" is unknown").
			because("%s", e.unknown).fix(e.runtime + " --version")}
	case e.target.MaxCDI == "":
		return []Finding{found("runtime-no-cdi", Warning, name+" does not support CDI").
			because("it %s", e.target.Note).fix(upgradeCommands[e.runtime])}
	case !f.cdiOn(e):
		return []Finding{found("runtime-cdi-off", Warning, "CDI is disabled in the configuration of "+name).
			because("%s", cdiOffReasons[e.runtime]).fix(cdiOnCommands[e.runtime]...)}
	}
	findings := append(f.tooOld(e, name), f.otherDirs(e, name)...)
	if len(findings) == 0 {
		findings = append(findings, found("runtime-ok", OK, name+" reads CDI up to "+e.target.MaxCDI+" from "+
			strings.Join(e.target.Dirs, " and ")))
	}
	return findings
}

// upgradeCommands install a newer release, or list the available releases if the distribution's own may be too old.
var upgradeCommands = map[string]string{
	runtimes.Podman:     "apt-get install podman || dnf upgrade podman",
	runtimes.Containerd: "apt-cache policy containerd.io containerd || dnf list --showduplicates containerd.io",
	runtimes.Docker:     "apt-cache policy docker-ce docker.io || dnf list --showduplicates docker-ce",
	runtimes.CRIO:       "apt-cache policy cri-o || dnf list --showduplicates cri-o",
}

// How to enable CDI where it is disabled by default.
var (
	cdiOffReasons = map[string]string{
		runtimes.Containerd: "containerd 1.7 ignores CDI unless enable_cdi is true: a container starts without the " +
			"devices that it requested, and no error says so",
		runtimes.Docker: "before 28.2 the feature cdi is off by default: --device vendor/class=name fails",
	}
	cdiOnCommands = map[string][]string{
		runtimes.Containerd: {
			`grep -n -e enable_cdi -e 'io.containerd.grpc.v1.cri"\]' ` + containerdConfig +
				" # below that section: enable_cdi = true",
			"systemctl restart containerd",
		},
		runtimes.Docker: {
			`grep -n features ` + dockerConfig + ` # add: "features": {"cdi": true}`,
			"systemctl restart docker",
		},
	}
)

// tooOld finds specs that an engine rejects.
func (f *facts) tooOld(e engine, name string) []Finding {
	var findings []Finding
	for _, s := range f.specs {
		if !s.valid() || !s.rdma {
			continue
		}
		if err := e.target.Check(s.spec); err != nil {
			findings = append(findings, found("runtime-too-old", Error, name+" cannot read a spec").
				about(s.path).because("%s", strings.ReplaceAll(err.Error(), "\n", "; ")).
				fix(s.rewrite("--target", e.target.String())))
		}
	}
	return findings
}

// otherDirs finds specs in directories that an engine does not read.
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
	return []Finding{found("runtime-dirs", Warning, name+" does not read the directory of "+plural(len(paths), "spec")).
		about(paths...).
		because("it reads %s only", strings.Join(e.target.Dirs, " and ")).
		fix("cdi-gen generate --output " + e.target.Dirs[0])}
}
