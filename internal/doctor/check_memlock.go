package doctor

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/runtimes"
)

// starter is who starts containers, and so gives them its limits.
type starter struct {
	who     string
	unit    string // of systemd, "" for a session
	limits  limits
	process process // says whether its hooks may raise a hard limit
}

// starters lists the daemons, and this session where podman is, which has none.
func (f *facts) starters() []starter {
	var list []starter
	for _, d := range f.startingDaemons() {
		if d.limits != nil {
			list = append(list, starter{d.String(), d.unit, *d.limits, d.process})
		}
	}
	podman := slices.ContainsFunc(f.engines, func(e engine) bool { return e.runtime == runtimes.Podman })
	if l := f.memlockOf("self"); f.Local && podman && l != nil {
		list = append(list, starter{"podman run from this session", "", *l, f.processOf("self")})
	}
	return list
}

// startingDaemons leaves out dockerd where there is the containerd that it uses.
func (f *facts) startingDaemons() []daemon {
	hasContainerd := slices.ContainsFunc(f.daemons, func(d daemon) bool { return d.runtime == runtimes.Containerd })
	return slices.DeleteFunc(slices.Clone(f.daemons), func(d daemon) bool { return hasContainerd && d.runtime == runtimes.Docker })
}

// checkMemlock says what limit of locked memory a container would get.
func checkMemlock(f *facts) []Finding {
	if len(f.snap.Usable()) == 0 {
		return nil
	}
	want, total := f.hookWant(), f.memTotal()
	var findings []Finding
	for _, s := range f.starters() {
		findings = append(findings, judge(s, want, total))
	}
	if r := f.lastReport(); r != nil && !r.Outcome.Well() {
		// What happened counts, and not what we make of capabilities.
		findings = slices.DeleteFunc(findings, func(f Finding) bool { return f.ID == MemlockByHook })
		findings = append(findings, reported(r, f.starters()))
	}
	return findings
}

// reported words what the hook could not do for the last container.
func reported(r *hook.Report, starters []starter) Finding {
	f := found(MemlockClamped, Warning, "the hook could not raise the locked memory of the last container").
		about("container "+shortID(r.ID)).
		because("at %s it said: %s", r.Time.UTC().Format("2006-01-02 15:04:05 MST"), r.Message)
	if len(starters) > 0 && starters[0].unit != "" {
		return f.fix(unitLimitCommands(starters[0].unit)...)
	}
	return f.fix(userLimit...)
}

// shortID is what runtimes show of a container's ID.
func shortID(id string) string { return id[:min(len(id), 12)] }

// judge words what a container of one starter gets, with the hook that raises
// the limit to want, 0 for none, on a host with so much memory.
func judge(s starter, want, total hook.Size) Finding {
	soft := s.limits.soft
	if soft >= total {
		return found(MemlockOK, OK, "containers get "+locked(soft)+" from "+s.who)
	}
	got := want
	if !s.process.raises {
		got = min(want, s.limits.hard)
	}
	switch {
	case want <= soft:
		return found(MemlockLow, Warning, "containers get "+locked(soft)).
			about(s.who).
			because("they inherit it, and no hook in a spec raises it. Registering more memory than that fails with ENOMEM; NCCL falls back to TCP without a word. --cap-add IPC_LOCK does not help users other than root").
			fix("cdi-gen generate --output /etc/cdi")
	case got < want && got < total:
		f := found(MemlockClamped, Warning, "containers get no more than "+locked(max(soft, got))+", with or without the hook").about(s.who)
		if s.process.uid == 0 {
			const lacks = "without it %s. The hook asks for %s, and cannot raise the hard limit of %s: " +
				"it lacks CAP_SYS_RESOURCE on the host, like what starts it"
			return f.because(lacks, soft, want, s.limits.hard).
				fix(cmp.Or(s.unitLimit(), strings.Join(userLimit, "\n")))
		}
		const user = "without it %s. The hook asks for %s, and runs as a user, who cannot raise the hard limit of %s"
		return f.because(user, soft, want, s.limits.hard).
			fix(userLimit...)
	}
	f := found(MemlockByHook, Info, "containers get "+locked(soft)+", and with the hook "+got.String()).
		about(s.who).
		because("the hook reaches the container's own processes; exec sessions (kubectl exec, podman exec) keep %s", soft)
	if s.unit == "" {
		return f.fix("ulimit -l unlimited")
	}
	return f.fix(unitLimitCommands(s.unit)...)
}

// unitLimit are the commands that raise the limit of a service, "" for a session.
func (s starter) unitLimit() string {
	if s.unit == "" {
		return ""
	}
	return strings.Join(unitLimitCommands(s.unit), "\n")
}

// locked words a limit.
func locked(s hook.Size) string {
	if s == hook.Unlimited {
		return "unlimited locked memory"
	}
	return s.String() + " of locked memory"
}

// userLimit raises the hard limit of users, from their next login on.
var userLimit = []string{
	"mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\\nLimitMEMLOCK=infinity\\n' > /etc/systemd/system/user@.service.d/memlock.conf",
	"printf '* - memlock unlimited\\n' > /etc/security/limits.d/memlock.conf",
}

// unitLimitCommands raise the limit of a service.
func unitLimitCommands(unit string) []string {
	dir := "/etc/systemd/system/" + unit + ".d"
	return []string{
		"mkdir -p " + dir + " && printf '[Service]\\nLimitMEMLOCK=infinity\\n' > " + dir + "/memlock.conf",
		"systemctl daemon-reload && systemctl restart " + unit,
	}
}

// hookWant is the limit to which the hooks of the specs raise, 0 without one.
func (f *facts) hookWant() hook.Size {
	var want hook.Size
	for _, h := range f.hooks() {
		if !h.ours || len(h.args) == 0 {
			continue
		}
		if o, _, err := hook.ParseOptions(h.args[1:]); err == nil {
			want = max(want, o.Memlock)
		}
	}
	return want
}
