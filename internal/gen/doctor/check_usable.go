package doctor

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/usable"
)

// checkUsable reports what the last container, or the one that the host asks for, cannot use of its HCAs.
func checkUsable(f *facts, out *findings) {
	if f.host.Container != "" {
		checkRunning(f, out)
		return
	}
	if r := lastReport(f.host, f.specs.hookOptions()); r != nil {
		addUnusable(out, r.ID[:min(len(r.ID), 12)], r.Checks, fmt.Sprintf("at %s the hook said: ",
			r.Time.UTC().Format("2006-01-02 15:04:05 MST")))
	}
}

// checkRunning looks into a running container.
func checkRunning(f *facts, out *findings) {
	name := f.host.Container
	pid, err := usable.FindContainer(name)
	var c *usable.Container
	if err == nil {
		c, err = usable.OpenRunning(pid)
	}
	if err != nil {
		f.host.addUnseen("container "+name, err)
		return
	}
	defer c.Close()
	var hcas []args.HCA
	for _, h := range f.snap.HCAs {
		if h.Uverbs != nil {
			hcas = append(hcas, args.HCA{IBDev: h.IBDev, Node: h.Uverbs.Name, Driver: h.Driver})
		}
	}
	checks := c.Check(hcas)
	if len(checks) == 0 {
		f.host.addUnseen("container "+name, errors.New("it has none of the host's RDMA device nodes"))
		return
	}
	for _, check := range checks {
		if check.Result == usable.NotChecked {
			f.host.addUnseen(fmt.Sprintf("%s of %s in container %s", check.Kind, check.HCA, name),
				errors.New(check.Message))
		}
	}
	addUnusable(out, name, checks, "")
}

// unusableFixes are commands on the host.
var unusableFixes = map[usable.Kind]string{
	usable.Provider:   "cdi-gen generate --userspace host --to /etc/cdi",
	usable.Permission: "chmod 0666 /dev/infiniband/uverbs*",
	usable.Memlock:    "podman inspect --format '{{.HostConfig.Ulimits}}' CONTAINER",
	usable.Variables:  "podman inspect --format '{{.Config.Env}}' CONTAINER",
}

// addUnusable adds a finding for each check of an HCA that a container cannot use, or one that it can use them. The
// hook's limit of locked memory has findings of its own.
func addUnusable(out *findings, id string, checks []usable.Check, intro string) {
	added := false
	for _, c := range checks {
		if c.Result != usable.Unusable || c.Kind == usable.Memlock && c.Remedy == "" {
			continue
		}
		subjects := []string{"container " + id}
		if c.HCA != "" {
			subjects = append(subjects, c.HCA)
		}
		added = true
		out.add(found("container-unusable", Warning, "a container cannot use an HCA that it has: "+string(c.Kind)).
			about(subjects...).because("%s", intro+c.Message+": "+c.Remedy).fix(unusableFixes[c.Kind]))
	}
	if !added && slices.ContainsFunc(checks, func(c usable.Check) bool { return c.Result == usable.OK }) {
		out.add(found("container-ok", OK, "a container can use its HCAs").about("container " + id))
	}
}
