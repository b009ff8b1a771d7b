package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// checkSpecs checks the spec directories. Specs are ok only without errors and warnings, and if they say for which HCAs
// their devices are.
func checkSpecs(f *facts, out *findings) {
	checkSpecDirs(f, out)
	checkSpecFiles(f, out)
	checkConflicts(f, out)
	checkShadowed(f, out)
	checkSpecNodes(f, out)
	known := checkPurposes(f, out) && f.whole
	var coverage findings
	checkCoverage(f, &coverage)
	if !known || slices.ContainsFunc(*out, func(f Finding) bool { return f.Severity == Error || f.Severity == Warning }) {
		coverage = slices.DeleteFunc(coverage, func(f Finding) bool { return f.ID == "specs-ok" })
	}
	out.add(coverage...)
}

// checkSpecDirs finds a link or a file in the place of a directory of specs. Without known runtimes, all of them count.
func checkSpecDirs(f *facts, out *findings) {
	follows := func(dir runtimes.Dir) bool {
		known := false
		for _, e := range f.engines {
			known = known || e.target.MaxCDI != ""
			if len(e.target.Unread([]runtimes.Dir{dir})) > 0 {
				return false
			}
		}
		return known
	}
	for _, dir := range runtimeconf.Stat(f.host.Root, f.dirs...) {
		if dir.State != runtimes.DirLink && dir.State != runtimes.DirOther || follows(dir) {
			continue
		}
		finding := found("spec-dir", Warning, "a file where the directory of specs should be").about(dir.Path).
			because("runtimes read no specs there; those with a CDI library from %s on read no other directory either",
				runtimes.FollowsLink)
		if dir.State == runtimes.DirLink {
			finding = found("spec-dir", Warning, "a directory of specs that is a symbolic link").about(dir.Path).
				because("runtimes with a CDI library before %s do not follow it: devices of its specs are unresolvable",
					runtimes.FollowsLink)
		}
		if slices.ContainsFunc(f.specs.rdma(), func(s specFile) bool { return s.dir == dir.Path }) {
			finding.Severity = Error
		}
		out.add(finding.fix(replaceDir(dir)...))
	}
}

// checkSpecFiles checks each file in the spec directories.
func checkSpecFiles(f *facts, out *findings) {
	for _, s := range f.specs {
		if s.ignored {
			out.add(found("spec-extension", Warning, "a spec with an extension that no runtime reads").
				about(s.path).because("runtimes read only files that end in .json or .yaml").
				fix("mv " + text.Shells(s.path, strings.TrimSuffix(s.path, ".yml")+".yaml")))
			continue
		}
		if s.err != nil {
			out.add(invalid(s))
		}
		closed, mode, err := hostfs.ClosedTo(f.host.Root, s.path, 0o004)
		if closed == "" || err != nil {
			continue // the reader of specs reports the error
		}
		what, subjects, right := "a spec", []string{s.path}, "0644"
		if mode.IsDir() {
			what, subjects, right = "a spec below a directory", append(subjects, closed), "0755"
		}
		out.add(found("spec-mode", Warning, fmt.Sprintf("%s with mode %04o", what, mode.Perm())).about(subjects...).
			because("rootless podman cannot read the file: it reports that the device is unresolvable").
			fix("chmod " + right + " " + text.Shell(closed)))
	}
}

func invalid(s specFile) Finding {
	f := found("spec-invalid", Warning, "an invalid spec").about(s.path).because("%s", text.Foreign(s.err.Error())).
		look("cdi-gen validate " + text.Shell(s.path))
	if s.rdma {
		f.Severity = Error
		f = f.fix(s.rewrite())
	}
	if errors.Is(s.err, cdi.ErrPanics) { // it takes all devices along
		f.Severity = Error
	}
	return f
}

// deviceFiles maps each qualified device name to the files that define it.
func deviceFiles(specs []specFile) map[string][]specFile {
	files := map[string][]specFile{}
	for _, s := range specs {
		if !s.valid() {
			continue
		}
		for _, d := range s.spec.Devices {
			name := cdi.Qualified(s.spec.Kind, d.Name)
			files[name] = append(files[name], s)
		}
	}
	return files
}

// checkConflicts finds devices that more than one file defines.
func checkConflicts(f *facts, out *findings) {
	for _, dir := range f.dirs {
		names := map[string][]string{} // devices by the files that define them
		all := deviceFiles(f.specs.in(dir))
		for _, device := range slices.Sorted(maps.Keys(all)) {
			if len(all[device]) > 1 {
				key := strings.Join(texts(all[device]), "\x00")
				names[key] = append(names[key], device)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(names)) {
			out.add(conflict(all[names[key][0]], names[key]))
		}
	}
}

// conflict returns the finding for devices that several files of one directory define.
func conflict(files []specFile, devices []string) Finding {
	paths := texts(files)
	stem := func(p string) string { return strings.TrimSuffix(p, path.Ext(p)) }
	count := text.Count(len(devices), "device")
	f := found("spec-conflict", Warning, fmt.Sprintf("%s in %d files of one directory", count, len(files)))
	remedy := "rm " + text.Shell(paths[len(paths)-1])
	if len(files) == 2 && stem(paths[0]) == stem(paths[1]) {
		f = found("spec-twins", Error, count+" both in a .json and a .yaml file")
		if files[0].spec.Kind == cdi.KindHCA {
			remedy = files[1].rewrite() // it removes the twin
		}
	}
	if slices.ContainsFunc(files, func(s specFile) bool { return s.rdma }) {
		f.Severity = Error
	}
	return f.about(paths...).
		because("runtimes refuse a device that two files of one directory define: %s", text.Some(devices, ", ")).
		fix(remedy)
}

// checkShadowed finds devices that both directories define. Other directories are read by one runtime only.
func checkShadowed(f *facts, out *findings) {
	var devices, paths []string
	all := deviceFiles(f.specs.in(specDirs...))
	for _, device := range slices.Sorted(maps.Keys(all)) {
		files := all[device]
		if files[0].dir != files[len(files)-1].dir && files[0].rdma {
			devices, paths = append(devices, device), append(paths, texts(files)...)
		}
	}
	paths = unique(paths)
	out.add(foundIn(devices, "spec-shadowed", Info, "device", " both in "+cdi.StaticDir+" and "+cdi.DynamicDir).
		about(paths...).
		because("runtimes use the definition in %s: %s", cdi.DynamicDir, text.Some(devices, ", ")).
		look("diff " + text.Shells(paths...)))
}

// checkSpecNodes compares the nodes in specs with the nodes of the host.
func checkSpecNodes(f *facts, out *findings) {
	if !hostfs.HasDev(f.host.Root) {
		return // checkNodes reports it
	}
	for _, s := range f.specs.rdma() {
		var gone, pinned []string
		for _, e := range cdi.Edits(s.spec) {
			for _, n := range rdmaNodes(e) {
				if text := specNode(f.host.Root, n); text == missingNode {
					gone = append(gone, hostPath(n))
				} else if text != "" {
					pinned = append(pinned, text)
				}
			}
		}
		const absent = " that this host does not have"
		if gone = unique(gone); len(gone) > 0 {
			out.add(found("spec-stale", Error, "a spec with "+text.Count(len(gone), "node")+absent).
				about(append([]string{s.path}, gone...)...).
				because("devices have changed since the spec was written; a container that requests a missing one does not start").
				fix(s.rewrite()))
		}
		if pinned = unique(pinned); len(pinned) > 0 {
			out.add(found("spec-wrong-device", Error, "a spec with "+text.Count(len(pinned), "device number")+absent).
				about(append([]string{s.path}, pinned...)...).
				because("a runtime creates the node with the number in the spec and does not compare it with the host: " +
					"the container gets another device, or none").
				fix(s.rewrite()))
		}
	}
}

// checkPurposes compares the HCAs for which the devices of specs are with the host. It reports whether that could be
// compared for all of them.
func checkPurposes(f *facts, out *findings) (known bool) {
	known = true
	slots := cdi.NewSlots(f.snap)
	for _, s := range f.specs.rdma() {
		var reasons, devices, unknown []string
		for i := range s.spec.Devices {
			d := &s.spec.Devices[i]
			switch ok, err := slots.Purpose(s.spec, d); {
			case errors.Is(err, cdi.ErrNoOwner) && hostfs.HasDev(f.host.Root): // spec-stale, or node-stale
			case err != nil:
				devices, reasons = append(devices, d.Name), append(reasons, text.Foreign(err.Error()))
			case !ok:
				unknown = append(unknown, d.Name)
			}
		}
		if len(unknown) > 0 {
			known = false
			f.host.addUnseen(s.path, fmt.Errorf("for which HCA these devices are: %s; a spec that cdi-gen or the driver "+
				"writes now says it", text.Some(unknown, ", ")))
		}
		if len(devices) > 0 {
			out.add(found("spec-wrong-device", Error, "a spec with "+text.Count(len(devices), "device")+" that would give "+
				"another HCA, or none").about(append([]string{s.path}, devices...)...).
				because("HCAs were renamed, moved or removed since the spec was written: %s", text.Some(unique(reasons), "; ")).
				fix(s.rewrite()))
		}
	}
	return known
}

const missingNode = "missing"

// specNode returns the fault of a node in a spec, "" if it has none.
func specNode(root fs.ReadLinkFS, n *specs.DeviceNode) string {
	info, err := hostfs.Stat(root, hostPath(n))
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
	devices := text.Count(len(usable), "device")
	if !slices.ContainsFunc(f.specs, func(s specFile) bool { return s.rdma }) {
		if _, err := hostfs.Stat(f.host.Root, driverDir); err == nil {
			out.add(found("specs-ok", OK, "the Kubernetes driver's directory is here: a running driver writes a spec for each claim"))
			return
		}
		if !f.whole {
			return // it may be in what could not be read
		}
		out.add(found("spec-none", Warning, "no CDI spec gives the "+text.Count(len(usable), "RDMA device")+
			" of this host").
			because("containers cannot request a device by name").
			fix("cdi-gen generate --to " + cdi.StaticDir))
		return
	}
	files, given, whole := f.specs.given()
	if files == 0 {
		return // specs of claims have only the claimed devices
	}
	var left, nodeless []string
	for _, h := range usable {
		switch _, err := hostfs.Lstat(f.host.Root, h.Uverbs.Path()); {
		case given[h.Uverbs.Path()]:
		case hostfs.HasDev(f.host.Root) && errors.Is(err, fs.ErrNotExist):
			nodeless = append(nodeless, h.IBDev)
		default:
			left = append(left, h.IBDev)
		}
	}
	if len(nodeless) > 0 && !whole {
		out.add(found("spec-stale", Warning, text.Count(len(nodeless), "RDMA device")+
			" of this host in no spec, whose nodes are missing").about(nodeless...).
			because("cdi-gen leaves out what %s lacks; see node-missing, then write the spec again", rdma.DevDir).
			fix("cdi-gen generate --to " + cdi.StaticDir))
	}
	if len(left) > 0 && !whole {
		out.add(incomplete(text.Count(len(left), "RDMA device") + " of this host in no spec").about(left...).
			because("devices were added since the spec was written, or it was written for some of them"))
	}
	if cm := f.snap.RDMACM; cm != nil && !given[cm.Path()] && !whole && f.needsCM() {
		out.add(incomplete("rdma_cm in no spec").about(cm.Path()).
			because("rdma_ucm was loaded since the spec was written, or it was written without cm: in containers, programs " +
				"that connect by IP address (librdmacm: rping, perftest -R, libfabric) fail"))
	}
	if len(*out) == 0 {
		out.add(found("specs-ok", OK, text.Count(files, "RDMA spec")+", for all "+devices+" of this host"))
	}
}

func incomplete(title string) Finding {
	return found("spec-incomplete", Warning, title).fix("cdi-gen generate --to " + cdi.StaticDir)
}

// given counts the specs that are for the host and not for a claim, and returns the nodes that they give. whole reports
// whether one of them gives all nodes.
func (specs specFiles) given() (files int, nodes map[string]bool, whole bool) {
	nodes = map[string]bool{}
	for _, s := range specs.rdma() {
		if s.spec.Kind == cdi.KindClaim {
			continue
		}
		files++
		for _, e := range cdi.Edits(s.spec) {
			whole = whole || givesAll(e)
			for _, n := range rdmaNodes(e) {
				nodes[hostPath(n)] = true
			}
		}
	}
	return files, nodes, whole
}
