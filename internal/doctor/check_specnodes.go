package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// checkSpecNodes compares the nodes in specs with the nodes of the host.
func checkSpecNodes(f *facts, out *findings) {
	if !f.hasDev() {
		return // checkNodes reports it
	}
	for _, s := range f.rdmaSpecs() {
		var gone, pinned []string
		for _, e := range edits(s.spec) {
			for _, n := range rdmaNodes(e) {
				if text := f.specNode(n); text == missingNode {
					gone = append(gone, hostPath(n))
				} else if text != "" {
					pinned = append(pinned, text)
				}
			}
		}
		const absent = " that this host does not have"
		if gone = unique(gone); len(gone) > 0 {
			out.add(found("spec-stale", Error, "a spec with "+plural(len(gone), "node")+absent).
				about(append([]string{s.path}, gone...)...).
				because("devices have changed since the spec was written; a container that requests a missing one does not start").
				fix(s.rewrite()))
		}
		if pinned = unique(pinned); len(pinned) > 0 {
			out.add(found("spec-wrong-device", Error, "a spec with "+plural(len(pinned), "device number")+absent).
				about(append([]string{s.path}, pinned...)...).
				because("a runtime creates the node with the number in the spec and does not compare it with the host: " +
					"the container gets another device, or none").
				fix(s.rewrite()))
		}
	}
}

const missingNode = "missing"

// specNode returns the fault of a node in a spec, "" if it has none.
func (f *facts) specNode(n *specs.DeviceNode) string {
	info, err := hostfs.Stat(f.Root, hostPath(n))
	if errors.Is(err, fs.ErrNotExist) {
		return missingNode
	}
	if err != nil || n.Type == "" && n.Major == 0 {
		return ""
	}
	major, minor, ok := deviceNumber(info)
	if !ok || int64(major) == n.Major && int64(minor) == n.Minor {
		return ""
	}
	return fmt.Sprintf("%s (%d:%d in the spec, %d:%d on the host)", hostPath(n), n.Major, n.Minor, major, minor)
}

// unique sorts a list and removes duplicates.
func unique[T cmp.Ordered](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

// driverDir exists on a Kubernetes node that runs the driver. The driver writes a spec for each claim.
const driverDir = "/var/lib/kubelet/plugins/rdma.dev"

// checkCoverage finds devices of the host that are in no spec.
func checkCoverage(f *facts, out *findings) {
	usable := f.snap.Usable()
	if len(usable) == 0 {
		return
	}
	if !slices.ContainsFunc(f.specs, func(s specFile) bool { return s.rdma }) {
		if _, err := hostfs.Stat(f.Root, driverDir); err == nil {
			out.add(found("specs-ok", OK, "the Kubernetes driver writes a spec for each claim"))
			return
		}
		out.add(found("spec-none", Warning, "no CDI spec gives the "+plural(len(usable), "RDMA device")+" of this host").
			because("containers cannot request a device by name").
			fix("cdi-gen generate --output " + cdi.StaticDir))
		return
	}
	files, given, whole := f.given()
	if files == 0 {
		return // specs of claims have only the claimed devices
	}
	var left []string
	for _, h := range usable {
		if !given[h.Uverbs.Path()] {
			left = append(left, h.IBDev)
		}
	}
	if len(left) > 0 && !whole {
		out.add(incomplete(plural(len(left), "RDMA device") + " of this host in no spec").about(left...).
			because("devices were added since the spec was written, or it was written for some of them"))
	}
	if cm := f.snap.RDMACM; cm != nil && !given[cm.Path()] && !whole && f.needsCM() {
		out.add(incomplete("rdma_cm in no spec").about(cm.Path()).
			because("rdma_ucm was loaded since the spec was written, or it was written without cm: in containers, programs " +
				"that connect by IP address (librdmacm: rping, perftest -R, libfabric) fail"))
	}
	if len(*out) == 0 {
		out.add(found("specs-ok", OK, plural(files, "RDMA spec")+", for all "+plural(len(usable), "device")+" of this host"))
	}
}

func incomplete(title string) Finding {
	return found("spec-incomplete", Warning, title).fix("cdi-gen generate --output " + cdi.StaticDir)
}

// given counts the specs that are for the host and not for a claim, and returns the nodes that they give. whole reports
// whether one of them gives all nodes.
func (f *facts) given() (files int, nodes map[string]bool, whole bool) {
	nodes = map[string]bool{}
	for _, s := range f.rdmaSpecs() {
		if s.spec.Kind == cdi.KindClaim {
			continue
		}
		files++
		for _, e := range edits(s.spec) {
			whole = whole || givesAll(e)
			for _, n := range rdmaNodes(e) {
				nodes[hostPath(n)] = true
			}
		}
	}
	return files, nodes, whole
}
