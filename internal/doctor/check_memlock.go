package doctor

import (
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/runtimes"
)

// starter is a process that starts containers. Containers inherit its limits.
type starter struct {
	who     string
	unit    string // of systemd, "" for a session
	limits  limits
	process process // determines whether its hooks may raise a hard limit
}

// starters lists the daemons. Podman has no daemon, so if it is installed the list has this session too.
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

// startingDaemons lists the daemons that start containers. It omits dockerd if dockerd uses a containerd.
func (f *facts) startingDaemons() []daemon {
	hasContainerd := slices.ContainsFunc(f.daemons, func(d daemon) bool { return d.runtime == runtimes.Containerd })
	return slices.DeleteFunc(slices.Clone(f.daemons),
		func(d daemon) bool { return hasContainerd && d.runtime == runtimes.Docker })
}

// checkMemlock reports the limit of locked memory that a container would get.
func checkMemlock(f *facts) []Finding {
	if len(f.snap.Usable()) == 0 {
		return nil
	}
	want, total := f.hookWant(), f.memTotal()
	var findings []Finding
	for _, s := range f.starters() {
		findings = append(findings, s.checkLimit(want, total))
	}
	if r := f.lastReport(); r != nil && !r.Outcome.Well() {
		// The report of a real container overrules a prediction from capabilities.
		findings = slices.DeleteFunc(findings, func(f Finding) bool { return f.ID == "memlock-by-hook" })
		findings = append(findings, reported(r, f.starters()))
	}
	return findings
}

// reported returns the finding for a report of a failed hook.
func reported(r *hook.Report, starters []starter) Finding {
	unit := ""
	if len(starters) > 0 {
		unit = starters[0].unit
	}
	return found("memlock-clamped", Warning, "the hook could not raise the locked memory of the last container").
		about("container "+shortID(r.ID)).
		because("at %s it said: %s", r.Time.UTC().Format("2006-01-02 15:04:05 MST"), r.Message).
		fix(raiseCommands(unit)...)
}

// shortID is the part of a container's ID that runtimes show.
func shortID(id string) string { return id[:min(len(id), 12)] }

// checkLimit returns the finding for the containers of one starter. The hook raises the limit to want, 0 for no hook.
// total is the memory of the host.
func (s starter) checkLimit(want, total hook.Size) Finding {
	soft := s.limits.soft
	if soft >= total {
		return found("memlock-ok", OK, "containers get "+locked(soft)+" from "+s.who)
	}
	got := want
	if !s.process.raises {
		got = min(want, s.limits.hard)
	}
	switch {
	case want <= soft:
		return found("memlock-low", Warning, "containers get "+locked(soft)).
			about(s.who).
			because("they inherit it, and no hook in a spec raises it. Registering more memory fails with ENOMEM; NCCL " +
				"silently falls back to TCP. --cap-add IPC_LOCK does not help users other than root").
			fix("cdi-gen generate --output /etc/cdi")
	case got < want && got < total:
		f := found("memlock-clamped", Warning, "containers get no more than "+locked(max(soft, got))+
			", with or without the hook").about(s.who)
		const cannot = "without it %s. The hook requests %s, but cannot raise the hard limit of %s: "
		if s.process.uid == 0 {
			return f.because(cannot+"like its parent process it lacks CAP_SYS_RESOURCE on the host", soft, want, s.limits.hard).
				fix(raiseCommands(s.unit)...)
		}
		return f.because(cannot+"it runs as a user", soft, want, s.limits.hard).fix(raiseCommands("")...)
	}
	f := found("memlock-by-hook", Info, "containers get "+locked(soft)+", and with the hook "+got.String()).
		about(s.who).
		because("the hook raises the limit of the container's own processes; "+
			"exec sessions (kubectl exec, podman exec) keep %s", soft)
	if s.unit == "" {
		return f.fix("ulimit -l unlimited")
	}
	return f.fix(raiseCommands(s.unit)...)
}

// locked returns a limit in words.
func locked(s hook.Size) string {
	if s == hook.Unlimited {
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

// hookWant returns the limit that the hooks of the specs raise to, 0 without a hook.
func (f *facts) hookWant() (want hook.Size) {
	for _, o := range f.hookOptions() {
		want = max(want, o.Memlock)
	}
	return want
}
