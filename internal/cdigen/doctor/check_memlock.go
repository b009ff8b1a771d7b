package doctor

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"math/bits"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// starters lists the processes that start containers, which inherit their limits. It omits dockerd if dockerd uses a
// containerd. Podman has no daemon, so if it is installed the list has this session too.
func (f *facts) starters() []daemon {
	hasContainerd := slices.ContainsFunc(f.daemons, func(d daemon) bool { return d.runtime == runtimes.Containerd })
	list := slices.DeleteFunc(slices.Clone(f.daemons),
		func(d daemon) bool { return d.limits == nil || hasContainerd && d.runtime == runtimes.Docker })
	if l := f.host.memlockOf("self"); f.host.Local && f.installed(runtimes.Podman) && l != nil {
		list = append(list, daemon{name: "podman run from this session", limits: l, process: f.host.processOf("self")})
	}
	return list
}

// checkMemlock reports the limit of locked memory that a container would get.
func checkMemlock(f *facts, out *findings) {
	if len(f.snap.Usable()) == 0 {
		return
	}
	var want args.Size // the limit that the hooks of the specs raise to, 0 without a hook
	for _, o := range f.specs.hookOptions() {
		want = max(want, o.Memlock)
	}
	if want == 0 && !f.whole {
		f.host.addUnseen("locked memory of containers", errors.New("not all specs could be read, and one may raise it"))
		return
	}
	total, starters, unit := f.host.memTotal(), f.starters(), ""
	for _, s := range starters {
		out.add(s.checkLimit(want, total))
	}
	if len(starters) > 0 {
		unit = starters[0].unit
	}
	if r := lastReport(f.host, f.specs.hookOptions()); r != nil && !r.Outcome.Well() {
		// The report of a real container overrules a prediction from capabilities.
		*out = slices.DeleteFunc(*out, func(f Finding) bool { return f.ID == "memlock-by-hook" })
		out.add(found("memlock-clamped", Warning, "the hook could not raise the locked memory of the last container").
			about("container "+short(r.ID)).
			because("at %s it said: %s", r.Time.UTC().Format("2006-01-02 15:04:05 MST"), r.Message).
			fix(raiseCommands(unit)...))
	}
}

// checkLimit returns the finding for the containers of one starter. The hook raises the limit to want, 0 for no hook.
// total is the memory of the host.
func (s daemon) checkLimit(want, total args.Size) Finding {
	soft := s.limits.soft
	if soft >= total {
		return found("memlock-ok", OK, "containers get "+locked(soft)+" from "+s.String())
	}
	got := want
	if !s.process.raises {
		got = min(want, s.limits.hard)
	}
	switch {
	case want <= soft:
		return found("memlock-low", Warning, "containers get "+locked(soft)).
			about(s.String()).
			because("they inherit it, and no hook in a spec raises it. Registering more memory fails with ENOMEM; NCCL " +
				"silently falls back to TCP. --cap-add IPC_LOCK does not help users other than root").
			fix("cdi-gen generate --to /etc/cdi")
	case got < want && got < total:
		f := found("memlock-clamped", Warning, "containers get no more than "+locked(max(soft, got))+
			", with or without the hook").about(s.String())
		const cannot = "without it %s. The hook requests %s, but cannot raise the hard limit of %s: "
		if s.process.uid == 0 {
			return f.because(cannot+"like its parent process it lacks CAP_SYS_RESOURCE on the host", soft, want, s.limits.hard).
				fix(raiseCommands(s.unit)...)
		}
		return f.because(cannot+"it runs as a user", soft, want, s.limits.hard).fix(raiseCommands("")...)
	}
	f := found("memlock-by-hook", Info, "containers get "+locked(soft)+", and with the hook "+got.String()).
		about(s.String()).
		because("the hook raises the limit of the container's own processes; "+
			"exec sessions (kubectl exec, podman exec) keep %s", soft)
	if s.unit == "" {
		return f.fix("ulimit -l unlimited")
	}
	return f.fix(raiseCommands(s.unit)...)
}

// locked returns a limit in words.
func locked(s args.Size) string {
	if s == args.Unlimited {
		return "unlimited locked memory"
	}
	return s.String() + " of locked memory"
}

// raiseCommands returns the commands that raise the hard limit of a service, or, if unit is "", the hard limit of users
// from their next login on.
func raiseCommands(unit string) []string {
	apply := "systemctl daemon-reload && systemctl restart " + unit
	if unit == "" {
		unit, apply = "user@.service", "printf '* - memlock unlimited\\n' > /etc/security/limits.d/memlock.conf"
	}
	dir := "/etc/systemd/system/" + unit + ".d"
	return []string{"mkdir -p " + dir + " && printf '[Service]\\nLimitMEMLOCK=infinity\\n' > " + dir + "/memlock.conf",
		apply}
}

// checkUnits finds daemons that were not restarted after their unit got a higher limit of locked memory.
func checkUnits(f *facts, out *findings) {
	for _, d := range f.starters() {
		if d.unit == "" {
			continue
		}
		limit, file := f.host.unitLimit(d.unit)
		if file == "" || limit <= d.limits.soft {
			continue
		}
		out.add(found("memlock-restart", Warning,
			d.String()+" has "+locked(d.limits.soft)+", its unit file says "+limit.String()).
			about(file).
			because("a unit file takes effect when the service starts").
			fix("systemctl daemon-reload && systemctl restart " + d.unit))
	}
}

// unitLimit returns LimitMEMLOCK of a unit and the last file that sets it, "" if no file does.
func (r *reader) unitLimit(unit string) (limit args.Size, file string) {
	for _, name := range r.unitFiles(unit) {
		text, _ := r.optional(name)
		for line := range strings.Lines(text) {
			value, ok := strings.CutPrefix(strings.TrimSpace(line), "LimitMEMLOCK=")
			if !ok {
				continue
			}
			if size, ok := parseUnitSize(value); ok {
				limit, file = size, name
			}
		}
	}
	return limit, file
}

// unitFiles lists the files of a unit in the order in which systemd applies them.
func (r *reader) unitFiles(unit string) []string {
	return runtimeconf.UnitFiles(r.Root, unit, r.addUnseen)
}

// parseUnitSize parses a limit of systemd (systemd.exec(5)): "infinity", or bytes, optionally with a suffix K M G T P E
// (powers of 1024). Of "soft:hard" it returns the soft limit.
func parseUnitSize(s string) (args.Size, bool) {
	s, _, _ = strings.Cut(strings.TrimSpace(s), ":")
	if s == "infinity" {
		return args.Unlimited, true
	}
	shift := 0
	if s != "" {
		if i := strings.IndexByte("KMGTPE", s[len(s)-1]); i >= 0 {
			shift, s = 10*(i+1), s[:len(s)-1]
		}
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || bits.Len64(n)+shift > 64 || n<<shift == math.MaxUint64 {
		return 0, false
	}
	return args.Size(n << shift), true
}

// ulimitFiles lists the configuration files whose default_ulimits set the limits of all containers, the last word last.
func (f *facts) ulimitFiles() map[string][]string {
	crio := []string{runtimeconf.CRIOFile}
	for _, e := range f.host.list(runtimeconf.CRIODropIns) {
		crio = append(crio, path.Join(runtimeconf.CRIODropIns, e.Name()))
	}
	var release runtimes.Target // without a known one, a release before podman 6
	for _, e := range f.engines {
		if e.runtime == runtimes.Podman {
			release = e.target
		}
	}
	podman, err := runtimeconf.PodmanFiles(f.host.Root, release, f.host.User)
	if err != nil {
		f.host.addUnseen("configuration of podman", err)
	}
	return map[string][]string{"podman": podman, "CRI-O": crio}
}

const dockerConfig = "/etc/docker/daemon.json"

// checkUlimits finds runtimes whose configuration gives every container a small limit of locked memory. The limit goes
// into the OCI spec, and runc applies it after the hook.
func checkUlimits(f *facts, out *findings) {
	total := f.host.memTotal()
	report := func(program, file string, size args.Size) {
		if size < total {
			out.add(found("memlock-configured", Warning, program+" is configured to give containers "+locked(size)).
				about(file).
				because("runc applies a configured limit after the hook, so this limit wins; crun applies it before the hook").
				look("grep -n memlock " + text.Shell(file)))
		}
	}
	docker := dockerConfig // or the file that the unit names, or the user's
	for _, e := range f.engines {
		if e.runtime == runtimes.Docker && e.config.Main != "" {
			docker = e.config.Main
		}
	}
	if size, ok := f.host.dockerUlimit(docker); ok {
		report("Docker", docker, size)
	}
	all := f.ulimitFiles()
	for _, program := range slices.Sorted(maps.Keys(all)) {
		last, limit := "", args.Unlimited // a later file wins
		for _, file := range all[program] {
			text, _ := f.host.optional(file)
			if size, ok := tomlUlimit(text); ok {
				last, limit = file, size
			}
		}
		if last != "" {
			report(program, last, limit)
		}
	}
}

// dockerUlimit reads the default-ulimits of dockerd.
func (r *reader) dockerUlimit(file string) (args.Size, bool) {
	text, ok := r.optional(file)
	var config struct {
		Ulimits map[string]struct{ Soft int64 } `json:"default-ulimits"`
	}
	if !ok || json.Unmarshal([]byte(text), &config) != nil { // dockerd does not start with such a file
		return 0, false
	}
	memlock, ok := config.Ulimits["memlock"]
	return ulimitSize(memlock.Soft), ok
}

// ulimitPattern matches an entry of default_ulimits: "memlock=65536:65536".
var ulimitPattern = regexp.MustCompile(`["']memlock=(-?\d+|unlimited)(?::|["'])`)

// tomlUlimit finds the limit of locked memory in a configuration file. It needs no TOML parser, because no other entry
// has the form of this one.
func tomlUlimit(text string) (args.Size, bool) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if m := ulimitPattern.FindStringSubmatch(line); m != nil {
			if m[1] == "unlimited" {
				return args.Unlimited, true
			}
			n, err := strconv.ParseInt(m[1], 10, 64)
			return ulimitSize(n), err == nil
		}
	}
	return 0, false
}

// ulimitSize converts a limit. -1 means no limit.
func ulimitSize(n int64) args.Size {
	if n < 0 {
		return args.Unlimited
	}
	return args.Size(n)
}
