package configure

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
)

const (
	crioRestart = "systemctl restart crio"
	// crioOurs is the drop-in. CRI-O reads drop-ins by name, and the last one wins.
	crioOurs   = runtimeconf.CRIODropIns + "/99-cdi-gen.conf"
	crioHeader = "# Written by cdi-gen configure crio; cdi-gen configure crio --undo removes it.\n"
)

// planCRIO plans a drop-in. CRI-O reads specs without the setting, unless its configuration names other directories.
func planCRIO(root string, target runtimes.Target) (*Plan, error) {
	host := hostfs.DirFS(root)
	now, err := read(host, target, runtimeconf.User{})
	if err != nil {
		return nil, err
	}
	if reads(now, target) {
		note := "CRI-O needs no change: it reads CDI specs from " + list(now.Dirs)
		return &Plan{Dirs: now.Dirs, Notes: []string{note}}, nil
	}
	f, old, err := load(root, crioOurs)
	if err != nil {
		return nil, err
	}
	all := append(slices.Clone(now.Dirs), target.Dirs...)
	var b strings.Builder
	b.WriteString(crioHeader + "[crio.runtime]\ncdi_spec_dirs = [\n")
	for _, dir := range all {
		fmt.Fprintf(&b, "  %q,\n", dir)
	}
	b.WriteString("]\n")
	instead := map[string][]byte{crioOurs: []byte(b.String())}
	after, err := runtimeconf.Read(runtimeconf.Host{ReadLinkFS: host, Instead: instead}, target, runtimeconf.User{})
	if err != nil || !reads(after, target) {
		return nil, refusef("%s names other directories for CDI specs, and wins over %s: add %s there", now.DirsFile,
			crioOurs, list(target.Dirs))
	}
	return &Plan{Path: crioOurs, Old: old, New: []byte(b.String()), Restart: crioRestart, file: f, dropIn: true, Dirs: all,
		Notes: []string{now.DirsFile + " names other directories for CDI specs: " + list(now.Dirs)}}, nil
}

// reads reports whether one of the standard directories is among those of a configuration.
func reads(c *runtimeconf.Config, target runtimes.Target) bool {
	return slices.ContainsFunc(target.Dirs, c.Reads)
}

func list(dirs []string) string { return strings.Join(dirs, " and ") }

// undoCRIO removes the drop-in, if it is ours.
func undoCRIO(root string) (*Undo, error) {
	f, old, err := load(root, crioOurs)
	if err != nil || old == nil {
		return &Undo{}, err
	}
	if !bytes.HasPrefix(old, []byte(crioHeader)) {
		return nil, refusef("%q is not as cdi-gen writes it: remove it yourself", crioOurs)
	}
	return &Undo{Path: crioOurs, Old: old, Restart: crioRestart, file: f}, nil
}
