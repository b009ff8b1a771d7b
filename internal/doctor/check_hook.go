package doctor

import (
	"bytes"
	"debug/elf"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/quote"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// hookUse is a hook in a spec.
type hookUse struct {
	path  string
	args  []string
	specs []string // files that name it
	spec  specFile // the first of them
	ours  bool     // it is rdma-hook, whatever version its file name carries
}

// hooks lists the hooks of the RDMA specs, each path with its arguments once.
func (f *facts) hooks() []hookUse {
	var uses []hookUse
	for _, s := range f.specs {
		if !s.valid() || !s.rdma {
			continue
		}
		for _, e := range edits(s.spec) {
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

// checkHooks looks whether the hooks of the specs would run.
func checkHooks(f *facts) []Finding {
	var findings []Finding
	seen := map[string]bool{}
	for _, h := range f.hooks() {
		if seen[h.path] {
			continue
		}
		seen[h.path] = true
		if finding, bad := f.hookFault(h); bad {
			findings = append(findings, finding)
		}
	}
	if len(findings) == 0 && len(seen) > 0 {
		findings = append(findings, found(HookOK, OK, plural(len(seen), "hook")+" present, executable and static: "+strings.Join(sortedKeys(seen), ", ")))
	}
	for _, s := range f.specs {
		if s.valid() && s.spec.Kind == cdi.KindHCA && !f.hasHook(s) {
			findings = append(findings, found(HookAbsent, Info, "a spec without the hook that raises locked memory").
				about(s.path).
				because("its containers keep the limit of locked memory that they inherit").
				fix(s.rewrite()))
		}
	}
	return findings
}

func (f *facts) hasHook(s specFile) bool {
	return slices.ContainsFunc(f.hooks(), func(h hookUse) bool { return h.ours && slices.Contains(h.specs, s.path) })
}

// hookFault finds the first thing that is wrong with a hook.
func (f *facts) hookFault(h hookUse) (Finding, bool) {
	const consequence = "every container that asks for a device of the spec fails to start"
	about := append([]string{h.path}, h.specs...)
	info, err := f.root.Stat(h.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return found(HookMissing, Error, "a hook that is not there").about(about...).because("%s", consequence).
			fix("install -m 0755 RDMA_HOOK "+quote.Shell(h.path), h.spec.rewrite()), true
	case err != nil:
		f.blind(h.path, err)
		return Finding{}, false
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return found(HookNotExec, Error, "a hook that is not executable").about(about...).
			because("it is %s; %s", info.Mode(), consequence).fix("chmod 0755 " + quote.Shell(h.path)), true
	}
	if mount := f.noexecMount(h.path); mount != "" {
		return found(HookNoexec, Error, "a hook on a file system that is mounted noexec").about(about...).
			because("%s is mounted noexec; %s", mount, consequence).
			fix("install -m 0755 RDMA_HOOK /usr/bin/rdma-hook", "cdi-gen generate --hook-path /usr/bin/rdma-hook --output "+quote.Shell(h.spec.path)), true
	}
	if finding, bad := f.replaceable(h, about); bad {
		return finding, true
	}
	return f.binaryFault(h, about, consequence)
}

// replaceable looks who could put another program in the place of a hook.
func (f *facts) replaceable(h hookUse, about []string) (Finding, bool) {
	weak, err := hostfs.Weaknesses(f.root.fs, h.path)
	if err != nil {
		f.blind(h.path, err)
	}
	if len(weak) == 0 {
		return Finding{}, false
	}
	var reasons, fixes []string
	for _, w := range weak {
		reasons, fixes = append(reasons, w.Path+" "+w.Reason), append(fixes, w.Remedy())
	}
	return found(HookReplaceable, Error, "a hook that others than root can replace").about(about...).
		because("the container runtime runs it as root, and %s", strings.Join(reasons, ", ")).fix(fixes...), true
}

// binaryFault looks into the program itself. A script is taken as it is.
func (f *facts) binaryFault(h hookUse, about []string, consequence string) (Finding, bool) {
	data, err := f.root.ReadFile(h.path)
	if err != nil {
		f.blind(h.path, err)
		return Finding{}, false
	}
	program, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return Finding{}, false
	}
	if want, ok := machines[f.Arch]; ok && program.Machine != want {
		return found(HookArch, Error, "a hook for another processor").about(about...).
			because("it is built for %s, this host is %s; %s", program.Machine, want, consequence).
			fix("file "+quote.Shell(h.path), "install -m 0755 RDMA_HOOK "+quote.Shell(h.path)), true
	}
	dynamic := slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if dynamic && h.ours {
		return found(HookDynamic, Warning, "a hook that needs shared libraries").about(about...).
			because("it fails, and containers with it, when the host's C library does not fit; and it starts slower").
			fix("CGO_ENABLED=0 go install github.com/rdma-dev/dra-driver-rdma/cmd/rdma-hook@latest"), true
	}
	return Finding{}, false
}

// machines are the processors that we build for.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// noexecMount returns the mount point of a file if that is mounted noexec.
func (f *facts) noexecMount(name string) string {
	at, err := f.root.realPath(name)
	if err != nil {
		return ""
	}
	table, err := f.mountTable()
	if err != nil {
		f.blind("mounts of the host (is the hook's directory noexec?)", err)
		return ""
	}
	return findNoexec(table, at)
}

// mountTable reads the mounts of the host: those of this process on the host
// itself, else those of its first process, which only root may see.
func (f *facts) mountTable() (string, error) {
	name := "/proc/1/mountinfo"
	if f.Local {
		name = "/proc/self/mountinfo"
	}
	data, err := f.root.ReadFile(name)
	return string(data), err
}

// findNoexec finds the mount that a path is on (proc_pid_mountinfo(5)), and
// returns its mount point if the mount is noexec. Of two mounts on one point the
// later one counts.
func findNoexec(table, name string) string {
	best, noexec := "", false
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		point := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\134`, `\`).Replace(fields[4])
		if within(name, point) && len(point) >= len(best) {
			best, noexec = point, slices.Contains(strings.Split(fields[5], ","), "noexec")
		}
	}
	if !noexec {
		return ""
	}
	return best
}

// within reports whether a path is at or below a directory.
func within(name, dir string) bool {
	return dir == "/" || name == dir || strings.HasPrefix(name, dir+"/")
}
