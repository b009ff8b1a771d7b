package doctor

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/quote"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// checkSpecs checks the spec directories. It returns SpecsOK only without errors and warnings.
func checkSpecs(f *facts, out *findings) {
	checkSpecFiles(f, out)
	checkConflicts(f, out)
	checkShadowed(f, out)
	checkSpecNodes(f, out)
	var coverage findings
	checkCoverage(f, &coverage)
	if slices.ContainsFunc(*out, func(f Finding) bool { return f.Severity == Error || f.Severity == Warning }) {
		coverage = slices.DeleteFunc(coverage, func(f Finding) bool { return f.ID == "specs-ok" })
	}
	out.add(coverage...)
}

// checkSpecFiles checks each file in the spec directories.
func checkSpecFiles(f *facts, out *findings) {
	for _, s := range f.specs {
		if s.ignored {
			out.add(found("spec-extension", Warning, "a spec with an extension that no runtime reads").
				about(s.path).because("runtimes read only files that end in .json or .yaml").
				fix("mv " + quote.Shells(s.path, strings.TrimSuffix(s.path, ".yml")+".yaml")))
			continue
		}
		if s.err != nil {
			out.add(invalid(s))
		}
		if s.mode&0o004 == 0 {
			out.add(found("spec-mode", Warning, fmt.Sprintf("a spec with mode %04o", s.mode)).
				about(s.path).because("rootless podman cannot read the file: it reports that the device is unresolvable").
				fix("chmod 0644 " + quote.Shell(s.path)))
		}
	}
}

func invalid(s specFile) Finding {
	f := found("spec-invalid", Warning, "an invalid spec").about(s.path).because("%s", s.err).
		fix("cdi-gen validate " + quote.Shell(s.path))
	if s.rdma {
		f.Severity = Error
		f = f.fix(s.rewrite())
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
	for _, dir := range specDirs {
		inDir := slices.DeleteFunc(slices.Clone(f.specs), func(s specFile) bool { return s.dir != dir })
		names := map[string][]string{} // devices by the files that define them
		all := deviceFiles(inDir)
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
	count := plural(len(devices), "device")
	f := found("spec-conflict", Warning, fmt.Sprintf("%s in %d files of one directory", count, len(files)))
	remedy := "rm " + quote.Shell(paths[len(paths)-1])
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
		because("runtimes refuse a device that two files of one directory define: %s", shorten(devices, ", ")).
		fix(remedy)
}

// checkShadowed finds devices that both directories define.
func checkShadowed(f *facts, out *findings) {
	var devices, paths []string
	all := deviceFiles(f.specs)
	for _, device := range slices.Sorted(maps.Keys(all)) {
		files := all[device]
		if files[0].dir != files[len(files)-1].dir && files[0].rdma {
			devices, paths = append(devices, device), append(paths, texts(files)...)
		}
	}
	paths = unique(paths)
	out.add(foundIn(devices, "spec-shadowed", Info, "device", " both in "+cdi.StaticDir+" and "+cdi.DynamicDir).
		about(paths...).
		because("runtimes use the definition in %s: %s", cdi.DynamicDir, shorten(devices, ", ")).
		fix("diff " + quote.Shells(paths...)))
}

// maxListed is the number of names in a text.
const maxListed = 6

// shorten joins the first few of several texts.
func shorten(list []string, separator string) string {
	if more := len(list) - maxListed; more > 0 {
		return strings.Join(list[:maxListed], separator) + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(list, separator)
}
