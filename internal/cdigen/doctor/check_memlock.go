package doctor

import (
	"errors"
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// The kinds of findings, with their looks.
var (
	memlockLow     = catalogue.Kind("memlock-low", processes, "/proc/*/limits", specsRead)
	memlockClamped = catalogue.Kind("memlock-clamped", processes, "/proc/*/limits", specsRead, hookReports)
	memlockByHook  = catalogue.Kind("memlock-by-hook", processes, "/proc/*/limits", "/proc/*/status", specsRead)
	memlockOK      = catalogue.Kind("memlock-ok", "/proc/*/limits")
)

// starters lists the processes that start containers, which inherit their limits. It omits dockerd if dockerd uses a
// containerd. Podman has no daemon, so if it is installed the list has this session too.
func (f *facts) starters() []daemon {
	hasContainerd := slices.ContainsFunc(f.daemons, func(d daemon) bool { return d.runtime == runtimes.Containerd })
	list := slices.DeleteFunc(slices.Clone(f.daemons),
		func(d daemon) bool { return d.limits == nil || hasContainerd && d.runtime == runtimes.Docker })
	if l := f.host.memlockOf("self"); f.host.Local && installed(f.engines, runtimes.Podman) && l != nil {
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
	if want == 0 && f.host.unseen.has(specsRead) {
		f.host.unseen["locked memory of containers"] = errors.New("not all specs could be read, and one may raise it")
		return
	}
	total, starters, unit := f.host.memTotal(), f.starters(), ""
	for _, s := range starters {
		out.add(s.checkLimit(want, total))
	}
	if len(starters) > 0 {
		unit = starters[0].unit
	}
	if r := f.specs.lastReport(f.host); r != nil && !r.Outcome.Well() {
		// The report of a real container overrules a prediction from capabilities.
		*out = slices.DeleteFunc(*out, func(f finding.Finding) bool { return f.ID == memlockByHook.ID })
		out.add(memlockClamped.Found(finding.Warning, "the hook could not raise the locked memory of the last container").
			About("container "+short(r.ID)).
			Because("at %s it said: %s", r.Time.UTC().Format("2006-01-02 15:04:05 MST"), r.Message).
			Do(raiseCommands(unit)...))
	}
}

// checkLimit returns the finding for the containers of one starter. The hook raises the limit to want, 0 for no hook.
// total is the memory of the host.
func (s daemon) checkLimit(want, total args.Size) finding.Finding {
	soft := s.limits.soft
	if soft >= total {
		return memlockOK.Found(finding.OK, "containers inherit "+locked(soft)+" from "+s.String())
	}
	got := want
	if !s.process.raises {
		got = min(want, s.limits.hard)
	}
	switch {
	case want <= soft:
		return memlockLow.Found(finding.Warning, "containers get "+locked(soft)).
			About(s.String()).
			Because("they inherit it, and no hook in a spec raises it. Registering more memory fails with ENOMEM; NCCL " +
				"silently falls back to TCP. --cap-add IPC_LOCK does not help users other than root").
			Do("cdi-gen generate --to /etc/cdi")
	case got < want && got < total:
		f := memlockClamped.Found(finding.Warning, "containers get no more than "+locked(max(soft, got))+
			", with or without the hook").About(s.String())
		const cannot = "without it %s. The hook requests %s, but cannot raise the hard limit of %s: "
		if s.process.uid == 0 {
			return f.Because(cannot+"like its parent process it lacks CAP_SYS_RESOURCE on the host", soft, want, s.limits.hard).
				Do(raiseCommands(s.unit)...)
		}
		return f.Because(cannot+"it runs as a user", soft, want, s.limits.hard).Do(raiseCommands("")...)
	}
	f := memlockByHook.Found(finding.Info, "containers get "+locked(soft)+", and with the hook "+got.String()).
		About(s.String()).
		Because("the hook raises the limit of the container's own processes; "+
			"exec sessions (kubectl exec, podman exec) keep %s", soft)
	if s.unit == "" {
		return f.Do("ulimit -l unlimited")
	}
	return f.Do(raiseCommands(s.unit)...)
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
