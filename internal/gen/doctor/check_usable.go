package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/usable"
)

// checkUsable reports what containers cannot use of their HCAs: the one that the host asks for, or all that run and the
// last one that started.
func checkUsable(f *facts, out *findings) {
	var all looks
	if name := f.host.Container; name != "" {
		pid, err := usable.FindContainer(name)
		if err == nil {
			err = all.look(f, name, pid, func(*usable.Container) bool { return true })
		}
		if err == nil && len(all) == 0 {
			err = errors.New("it has none of the host's RDMA device nodes")
		}
		if err != nil {
			f.host.addUnseen("container "+name, err)
		}
		all.addTo(f, out)
		return
	}
	all.lookIntoAll(f)
	r := lastReport(f.host, f.specs.hookOptions())
	if r != nil && !slices.ContainsFunc(all, func(l look) bool { return l.id == short(r.ID) }) {
		all = append(all, look{short(r.ID), r.Checks, fmt.Sprintf("at %s the hook said: ",
			r.Time.UTC().Format("2006-01-02 15:04:05 MST"))})
	}
	all.addTo(f, out)
}

// look is what was found of a container.
type look struct {
	id     string // the part that runtimes show
	checks []usable.Check
	intro  string // who says it, if it was not this program
}

type looks []look

// short returns the part of a container's ID that runtimes show.
func short(id string) string { return id[:min(len(id), 12)] }

// maxContainers bounds the running containers that are looked into. A node has up to 250 pods.
const maxContainers = 2000

// lookIntoAll looks into each running container that was given HCAs.
func (l *looks) lookIntoAll(f *facts) {
	if f.host.Containers == nil {
		return
	}
	running, err := f.host.Containers()
	if err == nil && len(running) > maxContainers {
		err = fmt.Errorf("only %d of %d are checked", maxContainers, len(running))
	}
	for _, c := range running[:min(len(running), maxContainers)] {
		one := l.look(f, short(c.ID), c.PID, func(c *usable.Container) bool { return !c.HasAllDevices() })
		if err == nil && !isEnded(one) { // not while this program looked
			err = one
		}
	}
	if err != nil {
		f.host.addUnseen("running containers", err)
	}
}

func isEnded(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// look adds what is found of a running container, if it has nodes of HCAs and fits.
func (l *looks) look(f *facts, id string, pid int, fits func(*usable.Container) bool) error {
	c, err := usable.OpenRunning(pid)
	if err != nil {
		return err
	}
	defer c.Close()
	var hcas []args.HCA
	for _, h := range f.snap.HCAs {
		if h.Uverbs != nil {
			hcas = append(hcas, args.HCA{IBDev: h.IBDev, Node: h.Uverbs.Name, Driver: h.Driver})
		}
	}
	if checks := c.Check(hcas); len(checks) > 0 && fits(c) {
		*l = append(*l, look{id: id, checks: checks})
	}
	return nil
}

// unusableFixes and unusableLooks are commands on the host.
var (
	unusableFixes = map[usable.Kind]string{
		usable.Provider:   "cdi-gen generate --userspace host --to /etc/cdi",
		usable.Permission: "chmod 0666 /dev/infiniband/uverbs*",
	}
	unusableLooks = map[usable.Kind]string{
		usable.Memlock:   "podman inspect --format '{{.HostConfig.Ulimits}}' CONTAINER",
		usable.Variables: "podman inspect --format '{{.Config.Env}}' CONTAINER",
	}
)

// addTo adds a finding for each fault, with the containers and HCAs that have it, and one for the containers that can
// use their HCAs. The hook's limit of locked memory has findings of its own.
func (l looks) addTo(f *facts, out *findings) {
	var faults []usable.Check // without the HCA
	subjects := map[usable.Check][]string{}
	var good []string
	for _, one := range l {
		bad := false
		for _, c := range one.checks {
			if c.Result == usable.NotChecked && f.host.Container != "" {
				f.host.addUnseen(fmt.Sprintf("%s of %s in container %s", c.Kind, c.HCA, one.id), errors.New(c.Message))
			}
			if c.Result != usable.Unusable || c.Kind == usable.Memlock && c.Remedy == "" {
				continue
			}
			bad = true
			hca := c.HCA
			c.HCA, c.Message = "", one.intro+c.Message
			if subjects[c] == nil {
				faults = append(faults, c)
			}
			subjects[c] = append(subjects[c], "container "+one.id)
			if hca != "" {
				subjects[c] = append(subjects[c], hca)
			}
		}
		if !bad && slices.ContainsFunc(one.checks, func(c usable.Check) bool { return c.Result == usable.OK }) {
			good = append(good, "container "+one.id)
		}
	}
	for _, c := range faults {
		slices.Sort(subjects[c])
		out.add(found("container-unusable", Warning, "a container cannot use an HCA that it has: "+string(c.Kind)).
			about(slices.Compact(subjects[c])...).because("%s", c.Message+": "+c.Remedy).
			fix(unusableFixes[c.Kind]).look(unusableLooks[c.Kind]))
	}
	if good != nil {
		out.add(found("container-ok", OK, "a container can use its HCAs").about(good...))
	}
}
