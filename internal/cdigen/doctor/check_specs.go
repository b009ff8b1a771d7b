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

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The kinds of findings, with their looks.
var (
	specDir         = catalogue.Kind("spec-dir", specsRead)
	specInvalid     = catalogue.Kind("spec-invalid", specsRead)
	specTwins       = catalogue.Kind("spec-twins", specsRead)
	specConflict    = catalogue.Kind("spec-conflict", specsRead)
	specStale       = catalogue.Kind("spec-stale", specsRead, deviceNodes)
	specWrongDevice = catalogue.Kind("spec-wrong-device", specsRead, deviceNodes)
	specNone        = catalogue.Kind("spec-none", specsRead)
	specIncomplete  = catalogue.Kind("spec-incomplete", specsRead)
	specExtension   = catalogue.Kind("spec-extension", specsRead)
	specMode        = catalogue.Kind("spec-mode", specsRead)
	specShadowed    = catalogue.Kind("spec-shadowed", specsRead)
	specsOK         = catalogue.Kind("specs-ok", specsRead, deviceNodes, "slots of *")
)

// checkSpecs checks the spec directories. Specs are ok only without errors and warnings, and if they say for which HCAs
// their devices are.
func checkSpecs(f *facts, out *findings) {
	checkSpecDirs(f, out)
	f.specs.checkFiles(f.host.Root, out)
	f.specs.checkConflicts(f.dirs, out)
	f.specs.checkShadowed(out)
	f.specs.checkGivenNodes(f.host.Root, out)
	f.specs.checkPurposes(f.host, f.snap, out)
	f.specs.checkCoverage(f.host, f.snap, out)
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
		dirFault := specDir.Found(finding.Warning, "a file where the directory of specs should be").About(dir.Path).
			Because("runtimes read no specs there; those with a CDI library from %s on read no other directory either",
				runtimes.FollowsLink)
		if dir.State == runtimes.DirLink {
			dirFault = specDir.Found(finding.Warning, "a directory of specs that is a symbolic link").About(dir.Path).
				Because("runtimes with a CDI library before %s do not follow it: devices of its specs are unresolvable",
					runtimes.FollowsLink)
		}
		if slices.ContainsFunc(f.specs.rdma(), func(s specFile) bool { return s.dir == dir.Path }) {
			dirFault.Severity = finding.Error
		}
		out.add(dirFault.Do(replaceDir(dir)...))
	}
}

// checkFiles checks each file in the spec directories.
func (specs specFiles) checkFiles(root fs.ReadLinkFS, out *findings) {
	for _, s := range specs {
		if s.ignored {
			out.add(misnamed(s))
			continue
		}
		if s.err != nil {
			fault := invalid(s, text.Foreign(s.err.Error()))
			if s.rdma {
				fault = fault.Do(s.rewrite())
			}
			out.add(fault.See("cdi-gen validate " + text.Shell(s.path)))
		}
		closed, mode, err := hostfs.ClosedTo(root, s.path, 0o004)
		if closed == "" || err != nil {
			continue // the reader of specs reports the error
		}
		what, subjects, right := "a spec", []string{s.path}, "0644"
		if mode.IsDir() {
			what, subjects, right = "a spec below a directory", append(subjects, closed), "0755"
		}
		out.add(hidden(what, mode).About(subjects...).Do("chmod " + right + " " + text.Shell(closed)))
	}
}

func misnamed(s specFile) finding.Finding {
	return specExtension.Found(finding.Warning, "a spec with an extension that no runtime reads").
		About(s.path).Because("runtimes read only files that end in .json or .yaml").
		Do("mv " + text.Shells(s.path, strings.TrimSuffix(s.path, ".yml")+".yaml"))
}

func hidden(what string, mode fs.FileMode) finding.Finding {
	return specMode.Found(finding.Warning, fmt.Sprintf("%s with mode %04o", what, mode.Perm())).
		Because("rootless podman cannot read the file: it reports that the device is unresolvable")
}

func invalid(s specFile, reason string) finding.Finding {
	f := specInvalid.Found(finding.Warning, "an invalid spec").About(s.path).Because("%s", reason)
	if s.rdma || errors.Is(s.err, cdi.ErrPanics) { // a panic takes all devices along
		f.Severity = finding.Error
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
func (specs specFiles) checkConflicts(dirs []string, out *findings) {
	for _, dir := range dirs {
		names := map[string][]string{} // devices by the files that define them
		all := deviceFiles(specs.in(dir))
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
func conflict(files []specFile, devices []string) finding.Finding {
	paths := texts(files)
	stem := func(p string) string { return strings.TrimSuffix(p, path.Ext(p)) }
	count := text.Count(len(devices), "device")
	f := specConflict.Found(finding.Warning, fmt.Sprintf("%s in %d files of one directory", count, len(files)))
	remedy := "rm " + text.Shell(paths[len(paths)-1])
	if len(files) == 2 && stem(paths[0]) == stem(paths[1]) {
		f = specTwins.Found(finding.Error, count+" both in a .json and a .yaml file")
		if files[0].spec.Kind == cdi.KindHCA {
			remedy = files[1].rewrite() // it removes the twin
		}
	}
	if slices.ContainsFunc(files, func(s specFile) bool { return s.rdma }) {
		f.Severity = finding.Error
	}
	return f.About(paths...).
		Because("runtimes refuse a device that two files of one directory define: %s", text.Some(devices, ", ")).
		Do(remedy)
}

// checkShadowed finds devices that both directories define. Other directories are read by one runtime only.
func (specs specFiles) checkShadowed(out *findings) {
	var devices, paths []string
	all := deviceFiles(specs.in(specDirs...))
	for _, device := range slices.Sorted(maps.Keys(all)) {
		files := all[device]
		if files[0].dir != files[len(files)-1].dir && files[0].rdma {
			devices, paths = append(devices, device), append(paths, texts(files)...)
		}
	}
	paths = unique(paths)
	out.add(foundIn(devices, specShadowed, finding.Info, "device", " both in "+cdi.StaticDir+" and "+cdi.DynamicDir).
		About(paths...).
		Because("runtimes use the definition in %s: %s", cdi.DynamicDir, text.Some(devices, ", ")).
		See("diff " + text.Shells(paths...)))
}

// checkGivenNodes compares the nodes in specs with the nodes of the host.
func (specs specFiles) checkGivenNodes(root fs.ReadLinkFS, out *findings) {
	if !hostfs.HasDev(root) {
		return // checkNodes reports it
	}
	for _, s := range specs.rdma() {
		var gone, pinned []string
		for _, e := range cdi.Edits(s.spec) {
			for _, n := range rdmaNodes(e) {
				if text := specNode(root, n); text == missingNode {
					gone = append(gone, hostPath(n))
				} else if text != "" {
					pinned = append(pinned, text)
				}
			}
		}
		const absent = " that this host does not have"
		if gone = unique(gone); len(gone) > 0 {
			out.add(specStale.Found(finding.Error, "a spec with "+text.Count(len(gone), "node")+absent).
				About(append([]string{s.path}, gone...)...).
				Because("devices have changed since the spec was written; a container that requests a missing one does not start").
				Do(s.rewrite()))
		}
		if pinned = unique(pinned); len(pinned) > 0 {
			out.add(specWrongDevice.Found(finding.Error, "a spec with "+text.Count(len(pinned), "device number")+absent).
				About(append([]string{s.path}, pinned...)...).
				Because("a runtime creates the node with the number in the spec and does not compare it with the host: " +
					"the container gets another device, or none").
				Do(s.rewrite()))
		}
	}
}

// checkPurposes compares the HCAs for which the devices of specs are with the host.
func (specs specFiles) checkPurposes(host *reader, snap *rdma.Snapshot, out *findings) {
	slots := cdi.NewSlots(snap)
	for _, s := range specs.rdma() {
		var reasons, devices, unknown []string
		for i := range s.spec.Devices {
			d := &s.spec.Devices[i]
			switch ok, err := slots.Purpose(s.spec, d); {
			case errors.Is(err, cdi.ErrNoOwner) && hostfs.HasDev(host.Root): // spec-stale, or node-stale
			case err != nil:
				devices, reasons = append(devices, d.Name), append(reasons, text.Foreign(err.Error()))
			case !ok:
				unknown = append(unknown, d.Name)
			}
		}
		if len(unknown) > 0 {
			host.unseen["slots of "+s.path] = fmt.Errorf("for which HCA these devices are: %s; a spec that cdi-gen or "+
				"the driver writes now says it", text.Some(unknown, ", "))
		}
		if len(devices) > 0 {
			out.add(specWrongDevice.Found(finding.Error, "a spec with "+text.Count(len(devices), "device")+" that would give "+
				"another HCA, or none").About(append([]string{s.path}, devices...)...).
				Because("HCAs were renamed, moved or removed since the spec was written: %s", text.Some(unique(reasons), "; ")).
				Do(s.rewrite()))
		}
	}
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
func (specs specFiles) checkCoverage(host *reader, snap *rdma.Snapshot, out *findings) {
	usable := snap.Usable()
	if len(usable) == 0 {
		return
	}
	devices := text.Count(len(usable), "device")
	if !slices.ContainsFunc(specs, func(s specFile) bool { return s.rdma }) {
		_, err := hostfs.Stat(host.Root, driverDir)
		switch {
		case err == nil && !out.troubled():
			out.add(specsOK.Found(finding.OK,
				"the Kubernetes driver's directory is here: a running driver writes a spec for each claim"))
		case err != nil && !host.unseen.has(specsRead): // else it may be in what could not be read
			out.add(specNone.Found(finding.Warning, "no CDI spec gives the "+text.Count(len(usable), "RDMA device")+
				" of this host").
				Because("containers cannot request a device by name").
				Do("cdi-gen generate --to " + cdi.StaticDir))
		}
		return
	}
	files, given, whole := specs.given()
	if files == 0 {
		return // specs of claims have only the claimed devices
	}
	var left, nodeless []string
	for _, h := range usable {
		switch _, err := hostfs.Lstat(host.Root, h.Uverbs.Path()); {
		case given[h.Uverbs.Path()]:
		case hostfs.HasDev(host.Root) && errors.Is(err, fs.ErrNotExist):
			nodeless = append(nodeless, h.IBDev)
		default:
			left = append(left, h.IBDev)
		}
	}
	if len(nodeless) > 0 && !whole {
		out.add(specStale.Found(finding.Warning, text.Count(len(nodeless), "RDMA device")+
			" of this host in no spec, whose nodes are missing").About(nodeless...).
			Because("cdi-gen leaves out what %s lacks; see node-missing, then write the spec again", rdma.DevDir).
			Do("cdi-gen generate --to " + cdi.StaticDir))
	}
	if len(left) > 0 && !whole {
		out.add(incomplete(text.Count(len(left), "RDMA device") + " of this host in no spec").About(left...).
			Because("devices were added since the spec was written, or it was written for some of them"))
	}
	if cm := snap.RDMACM; cm != nil && !given[cm.Path()] && !whole && needsCM(snap) {
		out.add(incomplete("rdma_cm in no spec").About(cm.Path()).
			Because("rdma_ucm was loaded since the spec was written, or it was written without cm: in containers, programs " +
				"that connect by IP address (librdmacm: rping, perftest -R, libfabric) fail"))
	}
	if !out.troubled() {
		out.add(specsOK.Found(finding.OK, text.Count(files, "RDMA spec")+", for all "+devices+" of this host"))
	}
}

func incomplete(title string) finding.Finding {
	return specIncomplete.Found(finding.Warning, title).Do("cdi-gen generate --to " + cdi.StaticDir)
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
