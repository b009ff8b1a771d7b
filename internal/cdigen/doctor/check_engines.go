package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
)

// The kinds of findings, with their looks.
var (
	runtimeTooOld  = catalogue.Kind("runtime-too-old", versionOf+"*", specsRead)
	runtimeDirs    = catalogue.Kind("runtime-dirs", versionOf+"*", configurationOf+"*", specsRead)
	runtimeNoCDI   = catalogue.Kind("runtime-no-cdi", versionOf+"*")
	runtimeCDIOff  = catalogue.Kind("runtime-cdi-off", versionOf+"*", configurationOf+"*")
	runtimeUnknown = catalogue.Kind("runtime-unknown", versionOf+"*", processes)
	runtimeNone    = catalogue.Kind("runtime-none", versionOf+"*")
	runtimeOK      = catalogue.Kind("runtime-ok", versionOf+"*", configurationOf+"*")
)

// checkEngines checks whether the installed runtimes can read the RDMA specs.
func checkEngines(f *facts, out *findings) {
	for _, e := range f.engines {
		out.add(e.check(f.host, f.specs)...)
	}
	for _, d := range f.daemons {
		if f.host.Local && !installed(f.engines, d.runtime) {
			out.add(runtimeUnknown.Found(finding.Info, d.String()+" is not in the search path").
				Because("its version and the CDI version that it reads are unknown").
				See(d.askVersion()))
		}
	}
	if f.host.Local && len(f.engines)+len(*out) == 0 && !f.host.unseen.has(versionOf+"*") {
		out.add(runtimeNone.Found(finding.Info, "no container runtime in the search path").
			Because("looked for podman, containerd, dockerd and crio").
			See("command -v podman containerd dockerd crio"))
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
	name := e.name()
	switch {
	case e.unknown != nil:
		return findings{runtimeUnknown.Found(finding.Info, name+" is unknown").
			Because("%s", e.unknown).See(e.runtime + " --version")}
	case e.target.MaxCDI == "":
		return findings{runtimeNoCDI.Found(finding.Warning, name+" does not support CDI").
			Because("it %s", e.target.Note).
			Do(upgradeCommands[e.runtime]).See(releaseCommands[e.runtime])}
	case e.config.NoCRI && !e.target.OnByDefault:
		return findings{runtimeCDIOff.Found(finding.Info, name+" runs without its CRI plugin").
			About(e.config.Main).
			Because("only that plugin reads CDI specs; Docker, which comes with such a containerd, reads them itself").
			See("grep -n disabled_plugins " + text.Shell(e.config.Main))}
	case !e.config.On:
		off := cdiOff[e.runtime]
		f := runtimeCDIOff.Found(finding.Warning, "CDI is disabled in the configuration of "+name).
			Because("%s", off.reason).Do(off.commands...)
		if e.config.OnFile != "" {
			f = f.About(e.config.OnFile)
		}
		return findings{f}
	}
	var out findings
	for _, s := range specs.rdma() {
		if s.ofOthers(e) {
			continue
		}
		if err := e.target.Check(s.spec); err != nil {
			out.add(runtimeTooOld.Found(finding.Error, name+" cannot read a spec").
				About(s.path).Because("%s", strings.ReplaceAll(err.Error(), "\n", "; ")).
				Do(s.rewrite("--target", e.target.String())))
		}
	}
	out.add(e.checkDirs(host, specs))
	if len(out) == 0 {
		out.add(runtimeOK.Found(finding.OK, name+" reads CDI up to "+e.target.MaxCDI+" from "+
			strings.Join(e.config.Dirs, " and ")))
	}
	return out
}

// checkDirs finds specs that the runtime does not read: in directories that it is not told to read, and in those that
// its CDI library passes over.
func (e engine) checkDirs(host *reader, specs specFiles) finding.Finding {
	unread := map[string]string{} // reasons by directory
	for _, u := range e.target.Unread(e.config.SpecDirs(host.Root)) {
		unread[runtimeconf.RunDir(u.Path)] = u.Reason
	}
	var left, reasons []string
	elsewhere := false
	for _, s := range specs.rdma() {
		reason, skipped := unread[runtimeconf.RunDir(s.dir)]
		if s.ofOthers(e) {
			continue
		}
		if !skipped && e.config.Reads(s.dir) {
			elsewhere = elsewhere || !slices.Contains(specDirs, s.dir)
			continue
		}
		left = append(left, s.path)
		if skipped {
			reasons = append(reasons, s.dir+": "+reason)
		}
	}
	if len(left) == 0 || elsewhere {
		return finding.Finding{}
	}
	if reasons = unique(reasons); len(reasons) == 0 {
		reasons = []string{"it reads " + cmp.Or(strings.Join(e.config.Dirs, " and "), "no directory") + " only"}
		if e.config.DirsFile != "" {
			reasons[0] += ", as " + e.config.DirsFile + " says"
		}
	}
	f := runtimeDirs.Found(finding.Warning, e.name()+" does not read the directory of "+text.Count(len(left), "spec")).
		About(left...).Because("%s", strings.Join(reasons, "; "))
	for _, dir := range e.config.SpecDirs(host.Root) {
		switch _, skipped := unread[runtimeconf.RunDir(dir.Path)]; {
		case dir.State == runtimes.DirMissing && len(unread) > 0:
			return f.Do("mkdir -p " + text.Shell(dir.Path))
		case !skipped:
			return f.Do("cdi-gen generate --to " + text.Shell(dir.Path))
		case dir.State != runtimes.DirMissing:
			return f.Do(replaceDir(dir)...)
		}
	}
	return f
}

// ofOthers reports whether a spec is in a directory that only the configuration of another runtime names.
func (s specFile) ofOthers(e engine) bool {
	return !slices.Contains(specDirs, s.dir) && !e.config.Reads(s.dir)
}

// replaceDir returns the commands that put a directory in the place of a link or file.
func replaceDir(dir runtimes.Dir) []string {
	p := text.Shell(dir.Path)
	if dir.State == runtimes.DirLink {
		return []string{"cp -rL " + p + " " + p + ".new && rm " + p + " && mv " + p + ".new " + p}
	}
	return []string{"rm " + p + " && mkdir " + p}
}

// upgradeCommands install a newer release. releaseCommands list the available ones, where the distribution's own may be
// too old.
var upgradeCommands = map[string]string{runtimes.Podman: "apt-get install podman || dnf upgrade podman"}

var releaseCommands = map[string]string{
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
	config  *runtimeconf.Config
}

// What begins what is not seen of a runtime that is there.
const versionOf, configurationOf = "version of ", "configuration of "

// findEngines runs the installed runtimes to learn their versions.
func findEngines(ctx context.Context, host *reader) []engine {
	if !host.Local || host.Run == nil {
		host.unseen["versions of container runtimes"] =
			errors.New("cdi-gen runs programs of a host on the host itself only")
		return nil
	}
	var engines []engine
	for _, d := range daemonKinds {
		ctx, cancel := context.WithTimeout(ctx, runtimes.VersionTimeout)
		out, err := host.Run(ctx, d.name, "--version")
		cancel()
		switch {
		case errors.Is(err, exec.ErrNotFound):
		case err != nil:
			host.unseen[versionOf+d.name] = fmt.Errorf("run %s --version: %w", d.name, err)
		default:
			e := newEngine(d.runtime, out)
			e.configure(host)
			engines = append(engines, e)
		}
	}
	return engines
}

// installed reports whether the program of a runtime is in the search path.
func installed(engines []engine, runtime string) bool {
	return slices.ContainsFunc(engines, func(e engine) bool { return e.runtime == runtime })
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

// name is the runtime with its version.
func (e engine) name() string { return e.runtime + " " + e.version }

// configure reads the configuration of an engine. If that fails, the engine counts as one that reads specs from the
// standard directories, and the file is recorded as not seen.
func (e *engine) configure(host *reader) {
	e.config = &runtimeconf.Config{On: true, Dirs: e.target.Dirs}
	if e.unknown != nil || e.target.MaxCDI == "" {
		return
	}
	config, err := runtimeconf.Read(runtimeconf.Host{ReadLinkFS: host.Root}, e.target, host.User)
	if err != nil {
		host.unseen[configurationOf+e.name()] = err
		return
	}
	e.config = config
}
