package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/runtimes"
)

// checkEngines checks whether the installed runtimes can read the RDMA specs.
func checkEngines(f *facts, out *findings) {
	for _, e := range f.engines {
		out.add(f.checkEngine(e)...)
	}
	for _, d := range f.daemons {
		if f.Local && !f.installed(d.runtime) {
			out.add(found("runtime-unknown", Info, d.String()+" is not in the search path").
				because("its version and the CDI version that it reads are unknown").
				fix(d.askVersion()))
		}
	}
	if f.Local && len(*out) == 0 {
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

// checkEngine checks one runtime.
func (f *facts) checkEngine(e engine) findings {
	name := e.runtime + " " + e.version
	switch {
	case e.unknown != nil:
		return findings{found("runtime-unknown", Info, name+" is unknown").
			because("%s", e.unknown).fix(e.runtime + " --version")}
	case e.target.MaxCDI == "":
		return findings{found("runtime-no-cdi", Warning, name+" does not support CDI").
			because("it %s", e.target.Note).fix(upgradeCommands[e.runtime])}
	case !f.cdiOn(e):
		off := cdiOff[e.runtime]
		return findings{found("runtime-cdi-off", Warning, "CDI is disabled in the configuration of "+name).
			because("%s", off.reason).fix(off.commands...)}
	}
	dirs := strings.Join(e.target.Dirs, " and ")
	var out findings
	var elsewhere []string
	for _, s := range f.rdmaSpecs() {
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
		out.add(found("runtime-dirs", Warning, name+" does not read the directory of "+plural(len(elsewhere), "spec")).
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
		[]string{
			`grep -n -e enable_cdi -e 'io.containerd.grpc.v1.cri"\]' ` + containerdConfig +
				" # below that section: enable_cdi = true",
			"systemctl restart containerd",
		},
	},
	runtimes.Docker: {
		"before 28.2 the feature cdi is off by default: --device vendor/class=name fails",
		[]string{
			`grep -n features ` + dockerConfig + ` # add: "features": {"cdi": true}`,
			"systemctl restart docker",
		},
	},
}
