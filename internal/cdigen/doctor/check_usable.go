package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/usable"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The kinds of findings, with their looks.
var (
	containerUnusable = catalogue.Kind("container-unusable", containersRead, hookReports)
	containerOK       = catalogue.Kind("container-ok", containersRead, hookReports)
)

// checkUsable reports what containers cannot use of their HCAs: the one that the host asks for, or all that run and the
// last one that started.
func checkUsable(f *facts, out *findings) {
	looks := f.looks
	if f.host.Container == "" {
		r := f.specs.lastReport(f.host)
		if r != nil && !slices.ContainsFunc(looks, func(l look) bool { return l.id == short(r.ID) }) {
			looks = append(looks, look{short(r.ID), r.Checks, fmt.Sprintf("at %s the hook said: ",
				r.Time.UTC().Format("2006-01-02 15:04:05 MST"))})
		}
	}
	looks.addTo(out)
}

// look is what was found of a container.
type look struct {
	id     string // the part that runtimes show
	checks []finding.Finding
	intro  string // who says it, if it was not this program
}

type looks []look

// short returns the part of a container's ID that runtimes show.
func short(id string) string { return id[:min(len(id), 12)] }

// maxContainers bounds the running containers that are looked into. A node has up to 250 pods.
const maxContainers = 2000

// lookIntoContainers looks into the container that the host asks for, or into each running one that was given HCAs.
func lookIntoContainers(ctx context.Context, host *reader, snap *rdma.Snapshot, specs specFiles) (out looks) {
	running, err := containersOf(host.Host)
	if err != nil {
		what := "running containers"
		if host.Container != "" {
			what = "container " + host.Container
		}
		host.unseen[what] = err
	}
	q := lookQuestion{Enough: host.memTotal()}
	for _, o := range specs.hookOptions() {
		if o.Memlock > 0 {
			q.Enough = min(q.Enough, o.Memlock)
		}
	}
	for _, h := range snap.HCAs {
		if h.Uverbs != nil {
			q.HCAs = append(q.HCAs, args.HCA{IBDev: h.IBDev, Node: h.Uverbs.Name, Driver: h.Driver})
		}
	}
	for _, c := range running {
		q.PIDs = append(q.PIDs, c.PID)
	}
	for i, a := range askLooks(ctx, q, maxLook) {
		asked := host.Container != ""
		if a.Error == "" && len(a.Checks) == 0 && asked {
			a.Error = "it has none of the host's RDMA device nodes"
		}
		switch {
		case a.Error != "" && (asked || !a.Ended): // not while this program looked
			host.unseen["container "+short(running[i].ID)] = errors.New(a.Error)
		case len(a.Checks) > 0 && (asked || !a.AllDevices):
			out = append(out, look{id: short(running[i].ID), checks: a.Checks})
			for _, c := range a.Checks {
				if c.Severity == finding.NotSeen {
					host.unseen[c.ID+" in container "+short(running[i].ID)] = errors.New(c.Message)
				}
			}
		}
	}
	return out
}

// containersOf returns the container that a host asks for, or all that run. The result is valid even with an error.
func containersOf(h *Host) ([]usable.Running, error) {
	switch {
	case h.Container != "":
		pid, err := usable.FindContainer(h.Container)
		if err != nil {
			return nil, err
		}
		return []usable.Running{{ID: h.Container, PID: pid}}, nil
	case h.Containers == nil:
		return nil, nil
	}
	running, err := h.Containers()
	if err == nil && len(running) > maxContainers {
		err = fmt.Errorf("only %d of %d are checked", maxContainers, len(running))
	}
	return running[:min(len(running), maxContainers)], err
}

func isEnded(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// unusableFixes and unusableLooks are commands on the host.
var (
	unusableFixes = map[string]string{
		record.Provider.ID:   "cdi-gen generate --userspace host --to /etc/cdi",
		record.Permission.ID: "chmod 0666 /dev/infiniband/uverbs*",
	}
	unusableLooks = map[string]string{
		record.Memlock.ID:   "podman inspect --format '{{.HostConfig.Ulimits}}' CONTAINER",
		record.Variables.ID: "podman inspect --format '{{.Config.Env}}' CONTAINER",
	}
)

// addTo adds a finding for each fault, with the containers and HCAs that have it, and one for the containers that can
// use their HCAs. The hook's limit of locked memory has findings of its own.
func (l looks) addTo(out *findings) {
	var faults []finding.Finding
	var good []string
	for _, one := range l {
		bad := false
		for _, c := range one.checks {
			if !c.Severity.Bad() || c.ID == record.Memlock.ID && c.Remedy == "" {
				continue
			}
			bad = true
			c.Message = one.intro + c.Message
			i := slices.IndexFunc(faults, func(f finding.Finding) bool {
				return f.ID == c.ID && f.Message == c.Message && f.Remedy == c.Remedy
			})
			if i < 0 {
				i, faults = len(faults), append(faults, c.About())
			}
			faults[i].Subjects = append(append(faults[i].Subjects, c.Subjects...), "container "+one.id)
		}
		if !bad && one.isGood() {
			good = append(good, "container "+one.id)
		}
	}
	for _, c := range faults {
		out.add(containerUnusable.Found(finding.Warning, "a container cannot use an HCA that it has: "+c.ID).
			About(unique(c.Subjects)...).Because("%s", c.Message+": "+c.Remedy).
			Do(unusableFixes[c.ID]).See(unusableLooks[c.ID]))
	}
	if good != nil {
		out.add(containerOK.Found(finding.OK, "a container can use its HCAs: provider, node and locked memory").
			About(good...))
	}
}

// isGood reports whether all was looked at, and is well.
func (l look) isGood() bool {
	has := func(want string) bool {
		return slices.ContainsFunc(l.checks, func(c finding.Finding) bool { return c.ID == want })
	}
	return has(record.Provider.ID) && has(record.Permission.ID) && has(record.Memlock.ID) &&
		!slices.ContainsFunc(l.checks, func(c finding.Finding) bool { return c.Severity != finding.OK })
}
