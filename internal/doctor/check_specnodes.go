package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// checkSpecNodes compares the nodes in specs with the nodes of the host.
func checkSpecNodes(f *facts) []Finding {
	if !f.hasDev() {
		return nil // checkNodes reports it
	}
	var findings []Finding
	for _, s := range f.specs {
		if !s.valid() || !s.rdma {
			continue
		}
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
		if len(gone) > 0 {
			gone = unique(gone)
			findings = append(findings, found("spec-stale", Error,
				"a spec with "+plural(len(gone), "node")+" that this host does not have").
				about(append([]string{s.path}, gone...)...).
				because("devices have changed since the spec was written; a container that requests a missing one does not start").
				fix(s.rewrite()))
		}
		if len(pinned) > 0 {
			pinned = unique(pinned)
			findings = append(findings, found("spec-wrong-device", Error,
				"a spec with "+plural(len(pinned), "device number")+" that this host does not have").
				about(append([]string{s.path}, pinned...)...).
				because("a runtime creates the node with the number in the spec and does not compare it with the host: "+
					"the container gets another device, or none").
				fix(s.rewrite()))
		}
	}
	return findings
}

const missingNode = "missing"

// specNode returns the fault of a node in a spec, "" if it has none.
func (f *facts) specNode(n *specs.DeviceNode) string {
	info, err := f.root.Stat(hostPath(n))
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
func checkCoverage(f *facts) []Finding {
	usable := f.snap.Usable()
	if len(usable) == 0 {
		return nil
	}
	if !slices.ContainsFunc(f.specs, func(s specFile) bool { return s.rdma }) {
		return f.noSpec(len(usable))
	}
	files, given, whole := f.given()
	if files == 0 {
		return nil // specs of claims have only the claimed devices
	}
	var left []string
	for _, h := range usable {
		if !given[h.Uverbs.Path()] {
			left = append(left, h.IBDev)
		}
	}
	var findings []Finding
	if len(left) > 0 && !whole {
		findings = append(findings, incomplete(plural(len(left), "RDMA device")+" of this host in no spec").about(left...).
			because("devices were added since the spec was written, or it was written for some of them"))
	}
	if cm := f.snap.RDMACM; cm != nil && !given[cm.Path()] && !whole && f.needsCM() {
		findings = append(findings, incomplete("rdma_cm in no spec").about(cm.Path()).
			because("rdma_ucm was loaded since the spec was written, or it was written without cm: in containers, programs "+
				"that connect by IP address (librdmacm: rping, perftest -R, libfabric) fail"))
	}
	if len(findings) > 0 {
		return findings
	}
	return []Finding{found("specs-ok", OK,
		plural(files, "RDMA spec")+", for all "+plural(len(usable), "device")+" of this host")}
}

func incomplete(title string) Finding {
	return found("spec-incomplete", Warning, title).fix("cdi-gen generate --output " + cdi.StaticDir)
}

// given counts the specs that are for the host and not for a claim, and returns the nodes that they give. whole reports
// whether one of them gives all nodes.
func (f *facts) given() (files int, nodes map[string]bool, whole bool) {
	nodes = map[string]bool{}
	for _, s := range f.specs {
		if !s.valid() || !s.rdma || s.spec.Kind == cdi.KindClaim {
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

func (f *facts) noSpec(devices int) []Finding {
	if _, err := f.root.Stat(driverDir); err == nil {
		return []Finding{found("specs-ok", OK, "the Kubernetes driver writes a spec for each claim")}
	}
	return []Finding{found("spec-none", Warning, "no CDI spec gives the "+plural(devices, "RDMA device")+" of this host").
		because("containers cannot request a device by name").
		fix("cdi-gen generate --output " + cdi.StaticDir)}
}
