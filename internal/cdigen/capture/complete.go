package capture

import (
	"path"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
)

// Complete makes a tree that has been cut out of a sysfs whole in itself. It adds the directories of buses, drivers,
// classes and modules that links lead to, and the links in /sys/bus that the kernel keeps for each device; links that
// lead to a device outside the tree are dropped.
func Complete(t *tree.Tree) error {
	for _, e := range t.Entries() {
		if e.Kind != tree.Link {
			continue
		}
		if err := completeLink(t, e); err != nil {
			return err
		}
	}
	for _, e := range t.Entries() {
		if e.Kind != tree.Link || !strings.HasPrefix(e.Path, "sys/devices/") {
			continue
		}
		if err := backLink(t, e); err != nil {
			return err
		}
	}
	return nil
}

func completeLink(t *tree.Tree, e tree.Entry) error {
	if _, err := t.Resolve(e.Path); err == nil {
		return nil
	}
	target := path.Join(path.Dir(e.Path), e.Target)
	for _, top := range []string{"sys/bus/", "sys/class/", "sys/module/"} {
		if strings.HasPrefix(target, top) && !path.IsAbs(e.Target) {
			return t.Write(tree.Entry{Path: target, Kind: tree.Dir})
		}
	}
	t.Remove(e.Path)
	return nil
}

// backLink adds the kernel's counterpart of a device's subsystem or driver link.
func backLink(t *tree.Tree, e tree.Entry) error {
	device := path.Dir(e.Path)
	target := path.Join(device, e.Target)
	dir := target
	switch {
	case path.Base(e.Path) == "subsystem" && strings.HasPrefix(target, "sys/bus/"):
		dir = target + "/devices"
	case path.Base(e.Path) == "driver" && strings.HasPrefix(target, "sys/bus/"):
	default:
		return nil
	}
	name := path.Join(dir, path.Base(device))
	if _, ok := t.Lookup(name); ok {
		return nil
	}
	up := strings.Repeat("../", strings.Count(name, "/")-1)
	return t.Write(tree.Entry{Path: name, Kind: tree.Link, Target: up + strings.TrimPrefix(device, "sys/")})
}
