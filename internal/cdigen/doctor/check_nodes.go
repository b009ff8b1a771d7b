package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The kinds of findings, with their looks.
var (
	nodeMissing     = catalogue.Kind("node-missing", deviceNodes)
	nodeWrongDevice = catalogue.Kind("node-wrong-device", deviceNodes)
	nodeMode        = catalogue.Kind("node-mode", deviceNodes)
	nodeStale       = catalogue.Kind("node-stale", "/dev/infiniband", "/sys/class/infiniband_verbs")
	nodesOK         = catalogue.Kind("nodes-ok", deviceNodes)
	psmNode         = catalogue.Kind("psm-node", "/sys/class/hfi1_user", specsRead)
)

// nodesOf lists the device nodes of an HCA.
func nodesOf(h *rdma.HCA) []rdma.Node {
	if h.Uverbs == nil {
		return h.MADs
	}
	return append([]rdma.Node{*h.Uverbs}, h.MADs...)
}

// nodeState lists nodes by their fault.
type nodeState struct {
	missing, missingMAD, wrong, closed, closedDirs, stale []string
}

// checkNodes compares /dev/infiniband with sysfs.
func checkNodes(f *facts, out *findings) {
	if !hostfs.HasDev(f.host.Root) {
		f.host.unseen["/dev"] = errors.New("it is not below the host root")
		return
	}
	var nodes []rdma.Node // of the kernel
	for i := range f.snap.HCAs {
		nodes = append(nodes, nodesOf(&f.snap.HCAs[i])...)
	}
	if f.snap.RDMACM != nil {
		nodes = append(nodes, *f.snap.RDMACM)
	}
	var s nodeState
	known := map[string]bool{}
	for _, n := range nodes {
		known[n.Name] = true
		s.check(f.host, n)
	}
	s.findStale(f.host, known)
	out.add(foundIn(s.missing, nodeMissing, finding.Error, "node", " of the kernel missing in /dev/infiniband").
		Because("libibverbs omits an HCA without its node in silence; a container that requests the node does not start").
		Do(trigger))
	out.add(foundIn(s.missingMAD, nodeMissing, finding.Warning,
		"management node", " of the kernel missing in /dev/infiniband").
		Because("fabric tools cannot use these ports; applications can").
		Do(trigger))
	out.add(foundIn(s.wrong, nodeWrongDevice, finding.Error, "node", " in /dev/infiniband with the wrong device number").
		Because("libibverbs compares the number, waits five seconds and gives up; a container gets another device, or " +
			"none. Nodes that were copied or made by hand become stale when a driver is reloaded").
		Do("rm " + pathsOf(s.wrong) + " && " + trigger))
	out.add(foundIn(s.closed, nodeMode, finding.Warning, "node", " not open to every user").
		Because("the kernel's default mode is 0666; users other than root cannot open the node, nor can rootless " +
			"containers, which get it with this mode").
		Do("chmod 0666 " + pathsOf(s.closed)).See("grep -r infiniband /etc/udev/rules.d"))
	out.add(foundIn(s.closedDirs, nodeMode, finding.Warning, "directory", " of nodes not open to every user").
		Because("users other than root cannot open nodes below it, nor can rootless containers").
		Do("chmod 0755 " + pathsOf(s.closedDirs)))
	out.add(foundIn(s.stale, nodeStale, finding.Warning, "node", " in /dev/infiniband without a device").
		Because("the kernel has no device of that name; a container with the node cannot open it, or opens another device " +
			"that has its number").
		Do("rm " + text.Shells(s.stale...)))
	if len(*out) == 0 && len(nodes) > 0 {
		out.add(nodesOK.Found(finding.OK, text.Count(len(nodes), "node")+" in /dev/infiniband, as in the kernel"))
	}
}

// checkPSM reports the nodes of Omni-Path HCAs that are outside of /dev/infiniband, and in no spec.
func checkPSM(f *facts, out *findings) {
	given := map[string]bool{}
	for _, s := range f.specs.rdma() {
		for _, e := range cdi.Edits(s.spec) {
			for _, n := range e.DeviceNodes {
				if n != nil {
					given[hostPath(n)] = true
				}
			}
		}
	}
	var nodes []string
	for _, e := range f.host.sysList("class/hfi1_user") { // only the driver hfi1 has it
		if node := "/dev/" + e.Name(); !given[node] {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) > 0 {
		out.add(foundIn(nodes, psmNode, finding.Info, "node", " of an Omni-Path HCA in no spec").
			Because("PSM2 and OPX, which MPI uses on Omni-Path, open this node. Without it, programs use verbs, which are " +
				"slower. Limits do not bound what a container holds of it").
			Do("cdi-gen generate --nodes verbs,cm,psm --to " + cdi.StaticDir))
	}
}

// check checks one node without opening it.
func (s *nodeState) check(host *reader, n rdma.Node) {
	mad := n.Kind == rdma.NodeUMAD || n.Kind == rdma.NodeISSM
	info, err := hostfs.Lstat(host.Root, n.Path())
	switch {
	case errors.Is(err, fs.ErrNotExist) && mad:
		s.missingMAD = append(s.missingMAD, n.Path())
	case errors.Is(err, fs.ErrNotExist):
		s.missing = append(s.missing, n.Path())
	case err != nil:
		host.unseen[n.Path()] = err
	case info.Mode()&fs.ModeCharDevice == 0:
		s.wrong = append(s.wrong, n.Path()+" (no character device)")
	default:
		if major, minor, ok := deviceNumber(info); ok && (major != n.Major || minor != n.Minor) {
			s.wrong = append(s.wrong,
				fmt.Sprintf("%s (is %d:%d, the kernel has %d:%d)", n.Path(), major, minor, n.Major, n.Minor))
		}
		closed, mode, err := hostfs.ClosedTo(host.Root, n.Path(), 0o006)
		what := fmt.Sprintf("%s (%04o)", closed, mode.Perm())
		if err != nil && !mad {
			host.unseen[n.Path()] = err
		}
		switch {
		case mad || err != nil || closed == "" || slices.Contains(s.closedDirs, what):
		case !mode.IsDir():
			s.closed = append(s.closed, what)
		default:
			s.closedDirs = append(s.closedDirs, what)
		}
	}
}

// deviceNumber returns the number of a device node.
func deviceNumber(info fs.FileInfo) (major, minor uint32, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)), true
}

// trigger makes udev create its nodes again.
const trigger = "udevadm trigger --action=add " +
	"--subsystem-match=infiniband_verbs --subsystem-match=infiniband_mad --subsystem-match=misc"

// pathsOf removes the remarks from a list of nodes, and quotes the paths.
func pathsOf(nodes []string) string {
	paths := make([]string, len(nodes))
	for i, n := range nodes {
		paths[i], _, _ = strings.Cut(n, " ")
	}
	return text.Shells(paths...)
}

// findStale finds the nodes of RDMA classes that do not exist in the kernel.
func (s *nodeState) findStale(host *reader, known map[string]bool) {
	for _, e := range host.list(rdma.DevDir) {
		class := strings.TrimRight(e.Name(), "0123456789")
		ours := slices.Contains([]string{"uverbs", "umad", "issm", "rdma_cm"}, class)
		// The snapshot omits nodes that it could not read completely.
		gone := host.sysLacks("class/infiniband_verbs/"+e.Name()) && host.sysLacks("class/infiniband_mad/"+e.Name())
		if ours && !known[e.Name()] && gone {
			s.stale = append(s.stale, path.Join(rdma.DevDir, e.Name()))
		}
	}
}
