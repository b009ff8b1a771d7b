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

	"github.com/rdma-dev/dra-driver-rdma/internal/quote"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// kernelNodes lists the nodes that the kernel has.
func (f *facts) kernelNodes() []rdma.Node {
	var nodes []rdma.Node
	for _, h := range f.snap.HCAs {
		if h.Uverbs != nil {
			nodes = append(nodes, *h.Uverbs)
		}
		nodes = append(nodes, h.MADs...)
	}
	if f.snap.RDMACM != nil {
		nodes = append(nodes, *f.snap.RDMACM)
	}
	return nodes
}

// hasDev reports whether the host's /dev is to be seen: below a host root it may
// not be mounted.
func (f *facts) hasDev() bool {
	_, err := f.root.Stat("/dev")
	return err == nil
}

// nodeState sorts nodes by what is wrong with them.
type nodeState struct {
	missing, missingMAD, wrong, closed []string
}

// checkNodes compares /dev/infiniband with sysfs.
func checkNodes(f *facts) []Finding {
	nodes := f.kernelNodes()
	if !f.hasDev() {
		f.blind("device nodes", errors.New("the host's /dev is not below the host root"))
		return nil
	}
	var s nodeState
	known := map[string]bool{}
	for _, n := range nodes {
		known[n.Name] = true
		f.lookAt(n, &s)
	}
	findings := s.findings()
	if stale := f.staleNodes(known); len(stale) > 0 {
		findings = append(findings, found(NodeStale, Warning, plural(len(stale), "node")+" in /dev/infiniband without a device").
			about(stale...).
			because("the kernel has no device of that name; a container that is given the node fails to open it, or opens another device of that number").
			fix("rm "+quote.Shells(stale...)))
	}
	if len(findings) == 0 && len(nodes) > 0 {
		findings = append(findings, found(NodesOK, OK, plural(len(nodes), "node")+" in /dev/infiniband, as the kernel has them"))
	}
	return findings
}

// lookAt looks at one node without opening it.
func (f *facts) lookAt(n rdma.Node, s *nodeState) {
	mad := n.Kind == rdma.NodeUMAD || n.Kind == rdma.NodeISSM
	info, err := f.root.Lstat(n.Path())
	switch {
	case errors.Is(err, fs.ErrNotExist) && mad:
		s.missingMAD = append(s.missingMAD, n.Path())
	case errors.Is(err, fs.ErrNotExist):
		s.missing = append(s.missing, n.Path())
	case err != nil:
		f.blind(n.Path(), err)
	case info.Mode()&fs.ModeCharDevice == 0:
		s.wrong = append(s.wrong, fmt.Sprintf("%s (no character device)", n.Path()))
	default:
		if major, minor, ok := deviceNumber(info); ok && (major != n.Major || minor != n.Minor) {
			s.wrong = append(s.wrong, fmt.Sprintf("%s (is %d:%d, the kernel has %d:%d)", n.Path(), major, minor, n.Major, n.Minor))
		}
		if !mad && info.Mode().Perm()&0o006 != 0o006 {
			s.closed = append(s.closed, fmt.Sprintf("%s (%04o)", n.Path(), info.Mode().Perm()))
		}
	}
}

// deviceNumber is the number of a device node.
func deviceNumber(info fs.FileInfo) (major, minor uint32, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)), true
}

// trigger makes udev make its nodes again.
const trigger = "udevadm trigger --action=add --subsystem-match=infiniband_verbs --subsystem-match=infiniband_mad --subsystem-match=misc"

func (s nodeState) findings() []Finding {
	var findings []Finding
	if len(s.missing) > 0 {
		findings = append(findings, found(NodeMissing, Error, plural(len(s.missing), "node")+" of the kernel missing in /dev/infiniband").
			about(s.missing...).
			because("libibverbs leaves an HCA without its node out, in silence; a container that asks for the node does not start").
			fix(trigger))
	}
	if len(s.missingMAD) > 0 {
		findings = append(findings, found(NodeMissing, Warning, plural(len(s.missingMAD), "management node")+" of the kernel missing in /dev/infiniband").
			about(s.missingMAD...).
			because("fabric tools cannot use these ports; applications can").
			fix(trigger))
	}
	if len(s.wrong) > 0 {
		findings = append(findings, found(NodeWrong, Error, plural(len(s.wrong), "node")+" in /dev/infiniband not the device of the kernel").
			about(s.wrong...).
			because("libibverbs compares the number, waits five seconds and gives up; a container gets another device, or none. Nodes copied or made by hand go stale when a driver is loaded again").
			fix("rm "+pathsOf(s.wrong)+" && "+trigger))
	}
	if len(s.closed) > 0 {
		findings = append(findings, found(NodeMode, Warning, plural(len(s.closed), "node")+" not open to every user").
			about(s.closed...).
			because("the kernel asks for mode 0666; users other than root, and rootless containers, which get the node as it is, cannot open it").
			fix("chmod 0666 "+pathsOf(s.closed), "grep -r infiniband /etc/udev/rules.d"))
	}
	return findings
}

// pathsOf strips remarks from a list of nodes.
func pathsOf(nodes []string) string {
	paths := make([]string, len(nodes))
	for i, n := range nodes {
		paths[i], _, _ = strings.Cut(n, " ")
	}
	return quote.Shells(paths...)
}

// staleNodes lists nodes of RDMA classes that the kernel does not have.
func (f *facts) staleNodes(known map[string]bool) []string {
	var stale []string
	for _, e := range f.list(rdma.DevDir) {
		class := strings.TrimRight(e.Name(), "0123456789")
		ours := slices.Contains([]string{"uverbs", "umad", "issm", "rdma_cm"}, class)
		if ours && !known[e.Name()] && !f.sysHasNode(e.Name()) {
			stale = append(stale, path.Join(rdma.DevDir, e.Name()))
		}
	}
	return stale
}

// sysHasNode reports whether sysfs has a node that the snapshot left out because
// it could not read all of it.
func (f *facts) sysHasNode(name string) bool {
	return f.sysHas("class/infiniband_verbs/"+name) || f.sysHas("class/infiniband_mad/"+name)
}
