package doctor

import (
	"bytes"
	"debug/elf"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/mountinfo"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/rdmacore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// The kinds of findings, with their looks.
var (
	hookMissing       = catalogue.Kind("hook-missing", hooksRead, specsRead)
	hookNotExecutable = catalogue.Kind("hook-not-executable", hooksRead, specsRead)
	hookNoexec        = catalogue.Kind("hook-noexec", hooksRead, mountsRead)
	hookReplaceable   = catalogue.Kind("hook-replaceable", hooksRead, specsRead)
	hookArch          = catalogue.Kind("hook-arch", hooksRead, specsRead)
	hookDynamic       = catalogue.Kind("hook-dynamic", hooksRead, specsRead)
	hookAbsent        = catalogue.Kind("hook-absent", specsRead)
	hookOK            = catalogue.Kind("hook-ok", hooksRead, mountsRead)
)

// hookUse is a hook in a spec.
type hookUse struct {
	path  string
	args  []string
	specs []string // files that name it
	spec  specFile // the first of these files
	ours  bool     // it is rdma-hook, of any version
}

// hookOptions returns the parsed arguments of the specs' rdma-hooks.
func (specs specFiles) hookOptions() (all []args.Options) {
	for _, h := range specs.hooks() {
		if h.ours && len(h.args) > 0 {
			if o, _, err := args.Parse(h.args[1:]); err == nil {
				all = append(all, o)
			}
		}
	}
	return all
}

// hooks lists the hooks of the RDMA specs, without duplicates of the same path and arguments.
func (specs specFiles) hooks() []hookUse {
	var uses []hookUse
	for _, s := range specs.rdma() {
		for _, e := range cdi.Edits(s.spec) {
			for _, h := range e.Hooks {
				i := slices.IndexFunc(uses, func(u hookUse) bool { return u.path == h.Path && slices.Equal(u.args, h.Args) })
				if i < 0 {
					ours := strings.HasPrefix(path.Base(h.Path), "rdma-hook")
					uses = append(uses, hookUse{path: h.Path, args: h.Args, spec: s, ours: ours})
					i = len(uses) - 1
				}
				uses[i].specs = unique(append(uses[i].specs, s.path))
			}
		}
	}
	return uses
}

// checkHooks checks whether runtimes can run the hooks of the specs.
func checkHooks(f *facts, out *findings) {
	seen := map[string]bool{}
	for _, h := range f.specs.hooks() {
		if !seen[h.path] {
			out.add(h.fault(f.host))
		}
		seen[h.path] = true
	}
	if len(*out) == 0 && len(seen) > 0 {
		paths := slices.Sorted(maps.Keys(seen))
		out.add(hookOK.Found(finding.OK,
			text.Count(len(seen), "hook")+" present and executable: "+strings.Join(paths, ", ")))
	}
	for _, s := range f.specs {
		raises := func(h hookUse) bool { return h.ours && slices.Contains(h.specs, s.path) }
		if s.valid() && s.spec.Kind == cdi.KindHCA && !slices.ContainsFunc(f.specs.hooks(), raises) {
			out.add(hookAbsent.Found(finding.Info, "a spec without the hook that raises locked memory").
				About(s.path).
				Because("its containers keep the inherited limit of locked memory").
				Do(s.rewrite()))
		}
	}
}

// hookConsequence is what follows if a runtime cannot run a hook.
const hookConsequence = "every container that requests a device of the spec fails to start"

// fault returns the first fault of a hook.
func (h hookUse) fault(host *reader) finding.Finding {
	about := append([]string{h.path}, h.specs...)
	info, err := hostfs.Stat(host.Root, h.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return hookMissing.Found(finding.Error, "the hook of a spec does not exist").About(about...).
			Because("%s", hookConsequence).
			Do("install -m 0755 RDMA_HOOK "+text.Shell(h.path), h.spec.rewrite())
	case err != nil:
		host.unseen["hook "+h.path] = err
		return finding.Finding{}
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return hookNotExecutable.Found(finding.Error, "the hook of a spec is not executable").About(about...).
			Because("its mode is %s; %s", info.Mode(), hookConsequence).Do("chmod 0755 " + text.Shell(h.path))
	}
	if mount := h.noexecMount(host); mount != "" {
		return hookNoexec.Found(finding.Error, "the hook of a spec is on a file system that is mounted noexec").
			About(about...).
			Because("%s is mounted noexec; %s", mount, hookConsequence).
			Do("install -m 0755 RDMA_HOOK /usr/bin/rdma-hook",
				"cdi-gen generate --hook-path /usr/bin/rdma-hook --to "+text.Shell(h.spec.path))
	}
	weak, err := hostfs.Weaknesses(host.Root, h.path)
	if err != nil {
		host.unseen["hook "+h.path] = err
	}
	if len(weak) == 0 {
		return h.binaryFault(host, about)
	}
	var reasons, fixes []string
	for _, w := range weak {
		reasons, fixes = append(reasons, w.Path+" "+w.Reason), append(fixes, w.Remedy())
	}
	return hookReplaceable.Found(finding.Error, "users other than root can replace the hook of a spec").About(about...).
		Because("the container runtime runs it as root, and %s", strings.Join(reasons, ", ")).Do(fixes...)
}

// binaryFault checks the program itself. It does not check scripts.
func (h hookUse) binaryFault(host *reader, about []string) finding.Finding {
	data, err := hostfs.ReadFile(host.Root, h.path, maxFile)
	if err != nil {
		host.unseen["hook "+h.path] = err
		return finding.Finding{}
	}
	machine, dynamic, err := rdmacore.ParseProgram(bytes.NewReader(data))
	if err != nil {
		return finding.Finding{}
	}
	if want, ok := machines[host.Arch]; ok && machine != want {
		return hookArch.Found(finding.Error, "the hook of a spec is built for another processor").About(about...).
			Because("it is built for %s, this host is %s; %s", machine, want, hookConsequence).
			Do("install -m 0755 RDMA_HOOK " + text.Shell(h.path)).See("file " + text.Shell(h.path))
	}
	if dynamic && h.ours {
		return hookDynamic.Found(finding.Warning, "the hook of a spec needs shared libraries").About(about...).
			Because("if the host's C library does not fit, the hook and every container with it fails; it also starts slower").
			Do("CGO_ENABLED=0 go install github.com/rdma-dev/dra-driver-rdma/cmd/rdma-hook@latest")
	}
	return finding.Finding{}
}

// machines are the processors that the project builds for.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// noexecMount returns the mount point of the hook if it is mounted noexec, else "".
func (h hookUse) noexecMount(host *reader) string {
	at, err := hostfs.Resolve(host.Root, h.path)
	if err != nil {
		return ""
	}
	mounts := "/proc/1/mountinfo" // of the host's first process, which only root can read
	if host.Local {
		mounts = "/proc/self/mountinfo"
	}
	table, err := hostfs.ReadFile(host.Root, mounts, maxFile)
	if err != nil {
		host.unseen["mounts of the host (is the hook's directory noexec?)"] = err
		return ""
	}
	return findNoexec(string(table), path.Join("/", at))
}

// findNoexec finds the mount of a path, and returns its mount point if the mount is noexec. If
// two mounts have the same mount point, the later one counts.
func findNoexec(table, name string) string {
	best, noexec := "", false
	for m := range mountinfo.Parse(table) {
		if (m.Point == "/" || strings.HasPrefix(name+"/", m.Point+"/")) && len(m.Point) >= len(best) {
			best, noexec = m.Point, slices.Contains(strings.Split(m.Options, ","), "noexec")
		}
	}
	if !noexec {
		return ""
	}
	return best
}
