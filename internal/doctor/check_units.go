package doctor

import (
	"maps"
	"math"
	"math/bits"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/hostfs"
)

// unitDirs are the directories of systemd units. The first one wins (systemd.unit(5)).
var unitDirs = []string{
	"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
	"/lib/systemd/system",
}

// checkUnits finds daemons that were not restarted after their unit got a higher limit of locked memory.
func checkUnits(f *facts, out *findings) {
	for _, d := range f.starters() {
		if d.unit == "" {
			continue
		}
		limit, file := f.unitLimit(d.unit)
		if file == "" || limit <= d.limits.soft {
			continue
		}
		out.add(found("memlock-restart", Warning,
			d.String()+" has "+locked(d.limits.soft)+", its unit file says "+limit.String()).
			about(file).
			because("a unit file takes effect when the service starts").
			fix("systemctl daemon-reload && systemctl restart " + d.unit))
	}
}

// unitLimit returns LimitMEMLOCK of a unit and the last file that sets it, "" if no file does.
func (f *facts) unitLimit(unit string) (limit hook.Size, file string) {
	for _, name := range f.unitFiles(unit) {
		text, _ := f.optional(name)
		for line := range strings.Lines(text) {
			value, ok := strings.CutPrefix(strings.TrimSpace(line), "LimitMEMLOCK=")
			if !ok {
				continue
			}
			if size, ok := parseUnitSize(value); ok {
				limit, file = size, name
			}
		}
	}
	return limit, file
}

// unitFiles lists the files of a unit in the order in which systemd applies them: the unit of the first directory, then
// the drop-ins by name. A drop-in hides one of the same name in a later directory.
func (f *facts) unitFiles(unit string) []string {
	var files []string
	dropIns := map[string]string{}
	for _, dir := range unitDirs {
		if name := path.Join(dir, unit); len(files) == 0 {
			if _, err := hostfs.Stat(f.Root, name); err == nil {
				files = append(files, name)
			}
		}
		for _, e := range f.list(path.Join(dir, unit+".d")) {
			if _, hidden := dropIns[e.Name()]; !hidden && path.Ext(e.Name()) == ".conf" {
				dropIns[e.Name()] = path.Join(dir, unit+".d", e.Name())
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dropIns)) {
		files = append(files, dropIns[name])
	}
	return files
}

// parseUnitSize parses a limit of systemd (systemd.exec(5)): "infinity", or bytes, optionally with a suffix K M G T P E
// (powers of 1024). Of "soft:hard" it returns the soft limit.
func parseUnitSize(s string) (hook.Size, bool) {
	s, _, _ = strings.Cut(strings.TrimSpace(s), ":")
	if s == "infinity" {
		return hook.Unlimited, true
	}
	shift := 0
	if s != "" {
		if i := strings.IndexByte("KMGTPE", s[len(s)-1]); i >= 0 {
			shift, s = 10*(i+1), s[:len(s)-1]
		}
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || bits.Len64(n)+shift > 64 || n<<shift == math.MaxUint64 {
		return 0, false
	}
	return hook.Size(n << shift), true
}
