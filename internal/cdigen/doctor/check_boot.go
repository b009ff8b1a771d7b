package doctor

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// unitOrder is the kind of the finding, with its looks.
var unitOrder = catalogue.Kind("unit-order", "/etc/systemd/system", "/etc/containers/systemd", specsRead)

// quadletDirs have the containers that systemd starts for root (podman-systemd.unit(5)).
var quadletDirs = []string{"/etc/containers/systemd", "/run/containers/systemd", "/usr/share/containers/systemd"}

// ownUnitDirs have the units of a site. Units of packages do not request our devices.
var ownUnitDirs = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system"}

// bootDirs have the links to the units that start at boot: enabled by a site, and by packages or an image.
var bootDirs = []string{
	"/etc/systemd/system/multi-user.target.wants", "/usr/lib/systemd/system/multi-user.target.wants",
}

// ourUnits write the spec at boot.
var ourUnits = []string{"cdi-gen.service", "cdi-gen-watch.service"}

// bootUnit is a unit that starts a container with one of our devices at boot.
type bootUnit struct {
	file, service string
	after         []string
}

// checkBoot finds units that may start a container before the spec exists. The directory /var/run/cdi is empty after a
// boot; a spec in /etc/cdi is there already.
func checkBoot(f *facts, out *findings) {
	kinds := []string{cdi.KindHCA}
	for _, s := range f.specs.rdma() {
		if s.spec.Kind != cdi.KindClaim && s.dir == cdi.StaticDir {
			return
		}
		kinds = append(kinds, s.spec.Kind)
	}
	writers := slices.DeleteFunc(slices.Clone(ourUnits), func(unit string) bool {
		return !slices.ContainsFunc(bootDirs, func(dir string) bool { return isFile(f.host.Root, path.Join(dir, unit)) })
	})
	if len(writers) == 0 { // something else may start them
		writers = ourUnits
	}
	ordered := slices.Concat(writers, []string{"multi-user.target", "graphical.target", "default.target"})
	for _, unit := range writers {
		ordered = append(ordered, f.host.unitWords(f.host.unitFiles(unit), "Before")...)
	}
	var files, fixes []string
	for _, u := range f.host.bootUnits(kinds) {
		if slices.Contains(ordered, u.service) ||
			slices.ContainsFunc(u.after, func(name string) bool { return slices.Contains(ordered, name) }) {
			continue
		}
		dir := "/etc/systemd/system/" + u.service + ".d"
		files = append(files, u.file)
		fixes = append(fixes, "mkdir -p "+text.Shell(dir)+" && printf '[Unit]\\nAfter="+strings.Join(ourUnits, " ")+
			"\\n' > "+text.Shell(dir+"/cdi-gen.conf"))
	}
	if len(files) == 0 {
		return
	}
	out.add(foundIn(files, unitOrder, finding.Warning, "unit", " may start a container before its CDI spec exists").
		Because("no After= orders it after %s, and %s is empty after a boot: then the runtime says that the device is "+
			"unresolvable", strings.Join(writers, " or "), cdi.DynamicDir).
		Do(append(fixes, "systemctl daemon-reload")...))
}

// bootUnits lists the units that request a device of a kind, and that something starts at boot.
func (r *reader) bootUnits(kinds []string) []bootUnit {
	var units []bootUnit
	add := func(file, service string, files []string) {
		text, _ := r.optional(file)
		starts := len(r.unitWords(files, "WantedBy"))+len(r.unitWords(files, "RequiredBy")) > 0
		if starts && slices.ContainsFunc(kinds, func(kind string) bool { return strings.Contains(text, kind+"=") }) {
			units = append(units, bootUnit{file, service, r.unitWords(files, "After")})
		}
	}
	for _, dir := range ownUnitDirs {
		for _, e := range r.list(dir) {
			if file := path.Join(dir, e.Name()); path.Ext(e.Name()) == ".service" && isFile(r.Root, file) {
				add(file, e.Name(), r.unitFiles(e.Name()))
			}
		}
	}
	for _, dir := range quadletDirs {
		for _, file := range r.quadlets(dir, 3) {
			name := strings.TrimSuffix(path.Base(file), ".container")
			files := []string{file}
			for _, d := range quadletDirs {
				for _, e := range r.list(path.Join(d, path.Base(file)+".d")) {
					files = append(files, path.Join(d, path.Base(file)+".d", e.Name()))
				}
			}
			if names := r.unitWords(files, "ServiceName"); len(names) > 0 {
				name = names[len(names)-1]
			}
			add(file, name+".service", append(files, r.unitFiles(name+".service")...))
		}
	}
	return units
}

// quadlets lists the containers in a directory, to a depth of subdirectories. Those of users have a systemd of their
// own, whose units cannot name units of the host.
func (r *reader) quadlets(dir string, depth int) []string {
	var files []string
	for _, e := range r.list(dir) {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir() && e.Name() != "users" && depth > 0:
			files = append(files, r.quadlets(name, depth-1)...)
		case path.Ext(e.Name()) == ".container" && isFile(r.Root, name):
			files = append(files, name)
		}
	}
	return files
}

// isFile reports whether a path leads to a regular file. A masked unit is a link to /dev/null.
func isFile(root fs.ReadLinkFS, name string) bool {
	info, err := hostfs.Stat(root, name)
	return err == nil && info.Mode().IsRegular()
}

// unitWords returns the words of a setting in unit files.
func (r *reader) unitWords(files []string, setting string) []string {
	var words []string
	for _, file := range files {
		text, _ := r.optional(file)
		for _, value := range runtimeconf.Settings(text, setting) {
			words = append(words, strings.Fields(value)...)
		}
	}
	return words
}

// unitFiles lists the files of a unit in the order in which systemd applies them.
func (r *reader) unitFiles(unit string) []string {
	return runtimeconf.UnitFiles(r.Root, unit, r.unseen.addUnlessMissing)
}
