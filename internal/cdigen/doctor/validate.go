package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// specValid is the kind of what Validate says of a good file. It does not depend on other files.
var specValid = catalogue.Kind("spec-valid", "content of the file")

// Validate judges spec files as runtimes read them, and not whether they fit the host.
func Validate(files []cdi.SpecFile) *Report {
	failed := unseen{}
	specs := newSpecFiles(files, failed)
	var out findings
	for _, s := range specs {
		switch {
		case s.ignored:
			out.add(misnamed(s))
		case s.err != nil:
			out.add(invalid(s, strings.ReplaceAll(s.err.Error(), "\n", "; ")))
		}
	}
	var dirs []string
	for _, file := range files {
		if !slices.Contains(dirs, file.Dir) {
			dirs = append(dirs, file.Dir)
		}
		switch spec := file.Spec; {
		case spec == nil:
		case file.Mode.Perm()&0o004 == 0:
			out.add(hidden("a spec", file.Mode).About(file.Path).Do("chmod 0644 " + text.Shell(file.Path)))
		default:
			out.add(specValid.Found(finding.OK, fmt.Sprintf("%s: CDI %s, kind %s, %s", file.Path, spec.Version, spec.Kind,
				text.Count(len(spec.Devices), "device"))))
		}
	}
	specs.checkConflicts(dirs, &out)
	return newReport(append(out, failed.findings(0)...)) // 0: without the hint to run as root
}
