package doctor

import (
	"fmt"
	"path"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// checkMADNodes checks who can use the management interface of the fabric.
func checkMADNodes(f *facts) []Finding {
	findings := f.openMADNodes()
	for _, s := range f.specs {
		if s.valid() && s.rdma {
			findings = append(findings, specPrivilege(s)...)
		}
	}
	if len(findings) == 0 && len(f.snap.HCAs) > 0 && f.hasDev() {
		findings = append(findings, found("privilege-ok", OK, "the fabric's management nodes are closed to containers"))
	}
	return findings
}

// openMADNodes finds umad and issm nodes that users other than root can open.
func (f *facts) openMADNodes() []Finding {
	var open []string
	for _, h := range f.snap.HCAs {
		for _, n := range h.MADs {
			if info, err := f.root.Stat(n.Path()); err == nil && info.Mode().Perm()&0o077 != 0 {
				open = append(open, fmt.Sprintf("%s (%04o)", n.Path(), info.Mode().Perm()))
			}
		}
	}
	if len(open) == 0 {
		return nil
	}
	return []Finding{found("mad-node-open", Warning, plural(len(open), "management node")+" open to users other than root").
		about(open...).
		because("whoever can open umad or issm can read and change the fabric: routes, addresses, links. "+
			"The kernel's default mode is 0600").
		fix("chmod 0600 "+pathsOf(open), "grep -rE 'umad|issm|infiniband' /etc/udev/rules.d")}
}

// specPrivilege checks which management nodes one spec gives to containers.
func specPrivilege(s specFile) []Finding {
	var findings []Finding
	var wide, named []string
	all := givesAll(&s.spec.ContainerEdits)
	if hasMADNode(&s.spec.ContainerEdits) {
		wide = append(wide, "every device of "+s.spec.Kind)
	}
	for i := range s.spec.Devices {
		d := &s.spec.Devices[i]
		all = all || givesAll(&d.ContainerEdits)
		if !hasMADNode(&d.ContainerEdits) {
			continue
		}
		if name := cdi.Qualified(s.spec.Kind, d.Name); saysMAD(s.spec.Kind, d.Name) {
			named = append(named, name)
		} else {
			wide = append(wide, name)
		}
	}
	if all {
		findings = append(findings, found("spec-gives-all", Warning, "a spec gives containers all of "+rdma.DevDir).
			about(s.path).
			because("a container gets every HCA and the nodes that manage the fabric").
			fix(s.rewrite()))
	}
	const reason = "a container with umad or issm can read and change the fabric; " +
		"the runtime gives the node to the container's user, whatever its mode on the host"
	if len(wide) > 0 {
		findings = append(findings, found("spec-gives-mad", Warning, plural(len(wide), "CDI device")+" with management nodes").
			about(append([]string{s.path}, wide...)...).because("%s", reason).fix(s.rewrite()))
	}
	if len(named) > 0 {
		findings = append(findings, found("spec-gives-mad", Info,
			plural(len(named), "CDI device")+" with management nodes, as the name says").
			about(append([]string{s.path}, named...)...).because("%s", reason).fix("cdi-gen list"))
	}
	return findings
}

// saysMAD reports whether a device's name indicates management nodes. A claim counts too, because an administrator
// approved it.
func saysMAD(kind, device string) bool {
	return kind == cdi.KindClaim || strings.HasSuffix(device, "-mad") || strings.HasSuffix(device, "-sm")
}

func hasMADNode(e *specs.ContainerEdits) bool {
	for _, n := range rdmaNodes(e) {
		switch strings.TrimRight(path.Base(hostPath(n)), "0123456789") {
		case string(rdma.NodeUMAD), string(rdma.NodeISSM):
			return true
		}
	}
	return false
}
