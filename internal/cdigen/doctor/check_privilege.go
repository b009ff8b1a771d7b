package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The kinds of findings, with their looks.
var (
	madNodeOpen  = catalogue.Kind("mad-node-open", deviceNodes)
	specGivesMAD = catalogue.Kind("spec-gives-mad", specsRead)
	specGivesAll = catalogue.Kind("spec-gives-all", specsRead)
	privilegeOK  = catalogue.Kind("privilege-ok", deviceNodes, specsRead)
)

// checkMADNodes checks who can use the management interface of the fabric.
func checkMADNodes(f *facts, out *findings) {
	var open []string // to users other than root
	for _, h := range f.snap.HCAs {
		for _, n := range h.MADs {
			switch info, err := hostfs.Stat(f.host.Root, n.Path()); {
			case err != nil && !errors.Is(err, fs.ErrNotExist):
				f.host.unseen[n.Path()] = err
			case err == nil && info.Mode().Perm()&0o077 != 0:
				open = append(open, fmt.Sprintf("%s (%04o)", n.Path(), info.Mode().Perm()))
			}
		}
	}
	out.add(foundIn(open, madNodeOpen, finding.Warning, "management node", " open to users other than root").
		Because("whoever can open umad or issm can read and change the fabric: routes, addresses, links. " +
			"The kernel's default mode is 0600").
		Do("chmod 0600 " + pathsOf(open)).See("grep -rE 'umad|issm|infiniband' /etc/udev/rules.d"))
	for _, s := range f.specs.rdma() {
		specPrivilege(s, out)
	}
	if len(*out) == 0 && len(f.snap.HCAs) > 0 {
		out.add(privilegeOK.Found(finding.OK, "the fabric's management nodes are closed to containers"))
	}
}

// specPrivilege checks which management nodes one spec gives to containers.
func specPrivilege(s specFile, out *findings) {
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
		out.add(specGivesAll.Found(finding.Warning, "a spec gives containers all of "+rdma.DevDir).
			About(s.path).
			Because("a container gets every HCA and the nodes that manage the fabric").
			Do(s.rewrite()))
	}
	const reason = "a container with umad or issm can read and change the fabric; " +
		"the runtime gives the node to the container's user, whatever its mode on the host"
	out.add(foundIn(wide, specGivesMAD, finding.Warning, "CDI device", " with management nodes").
		About(append([]string{s.path}, wide...)...).Because("%s", reason).Do(s.rewrite()))
	out.add(foundIn(named, specGivesMAD, finding.Info, "CDI device", " with management nodes, as the name says").
		About(append([]string{s.path}, named...)...).Because("%s", reason).See("cdi-gen list"))
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
