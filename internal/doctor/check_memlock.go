package doctor

import (
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/runtimes"
)

// starters lists the processes that start containers, which inherit their limits. It omits dockerd if dockerd uses a
// containerd. Podman has no daemon, so if it is installed the list has this session too.
func (f *facts) starters() []daemon {
	hasContainerd := slices.ContainsFunc(f.daemons, func(d daemon) bool { return d.runtime == runtimes.Containerd })
	list := slices.DeleteFunc(slices.Clone(f.daemons),
		func(d daemon) bool { return d.limits == nil || hasContainerd && d.runtime == runtimes.Docker })
	if l := f.memlockOf("self"); f.Local && f.installed(runtimes.Podman) && l != nil {
		list = append(list, daemon{name: "podman run from this session", limits: l, process: f.processOf("self")})
	}
	return list
}

// checkMemlock reports the limit of locked memory that a container would get.
func checkMemlock(f *facts, out *findings) {
	if len(f.snap.Usable()) == 0 {
		return
	}
	var want hook.Size // the limit that the hooks of the specs raise to, 0 without a hook
	for _, o := range f.hookOptions() {
		want = max(want, o.Memlock)
	}
	total, starters, unit := f.memTotal(), f.starters(), ""
	for _, s := range starters {
		out.add(s.checkLimit(want, total))
	}
	if len(starters) > 0 {
		unit = starters[0].unit
	}
	if r := f.lastReport(); r != nil && !r.Outcome.Well() {
		// The report of a real container overrules a prediction from capabilities.
		*out = slices.DeleteFunc(*out, func(f Finding) bool { return f.ID == "memlock-by-hook" })
		out.add(found("memlock-clamped", Warning, "the hook could not raise the locked memory of the last container").
			about("container "+r.ID[:min(len(r.ID), 12)]). // the part of the ID that runtimes show
			because("at %s it said: %s", r.Time.UTC().Format("2006-01-02 15:04:05 MST"), r.Message).
			fix(raiseCommands(unit)...))
	}
}

// checkLimit returns the finding for the containers of one starter. The hook raises the limit to want, 0 for no hook.
// total is the memory of the host.
func (s daemon) checkLimit(want, total hook.Size) Finding {
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
			fix("cdi-gen generate --output /etc/cdi")
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
