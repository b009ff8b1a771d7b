package doctor

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
)

// process is what the kernel says of who a process is.
type process struct {
	uid    int  // effective
	nested bool // in a PID namespace below that of the host
	// raises is whether it, and the hooks that it starts, may raise a hard limit: it has CAP_SYS_RESOURCE in the
	// user namespace of the host. User 0 alone does not say so.
	raises bool
}

// ofHost reports whether a process is one of the host's services, and not of a user or a container that calls a program
// by the same name.
func (p process) ofHost() bool { return p.uid == 0 && !p.nested }

// capSysResource is the number of CAP_SYS_RESOURCE (include/uapi/linux/capability.h).
const capSysResource = 24

// processOf reads the status of a process, "self" for this one. What cannot be read is noted, and is no right to
// anything.
func (f *facts) processOf(pid string) process {
	name := "/proc/" + pid + "/status"
	data, err := f.root.ReadFile(name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			f.blind(name, err)
		}
		return process{uid: -1}
	}
	p := process{uid: -1}
	capable := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		switch {
		case key == "Uid" && len(fields) > 1:
			p.uid, _ = strconv.Atoi(fields[1])
		case key == "NSpid":
			p.nested = len(fields) > 1
		case (key == "CapEff" || key == "CapBnd") && len(fields) > 0:
			bits, err := strconv.ParseUint(fields[0], 16, 64)
			capable[key] = err == nil && bits&(1<<capSysResource) != 0
		}
	}
	p.raises = capable["CapEff"] && capable["CapBnd"] && f.inHostUsers(pid)
	return p
}

// inHostUsers reports whether a process is in the first user namespace: the kernel asks there for the capability, and a
// process has all of them in its own.
func (f *facts) inHostUsers(pid string) bool {
	text, ok := f.optional("/proc/" + pid + "/uid_map")
	return !ok || strings.Join(strings.Fields(text), " ") == "0 0 4294967295"
}

// maxReport bounds what is read of a report of the hook, which has less than 4 KiB.
const maxReport = 64 << 10

// lastReport returns the newest of what the hooks of the specs say that they did to a limit, nil if none says anything.
func (f *facts) lastReport() *hook.Report {
	var last *hook.Report
	for _, h := range f.hooks() {
		if !h.ours || len(h.args) == 0 {
			continue
		}
		o, _, err := hook.ParseOptions(h.args[1:])
		if err != nil || o.Report == "" {
			continue
		}
		for _, e := range f.list(o.Report) {
			if path.Ext(e.Name()) != ".json" {
				continue // one in the making
			}
			if r := f.readReport(path.Join(o.Report, e.Name())); r != nil && r.Want != nil && (last == nil || r.Time.After(last.Time)) {
				last = r
			}
		}
	}
	return last
}

func (f *facts) readReport(name string) *hook.Report {
	info, err := f.root.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxReport {
		return nil // a driver has taken it, or it is no report
	}
	var r hook.Report
	text, ok := f.optional(name)
	if !ok || json.Unmarshal([]byte(text), &r) != nil {
		return nil
	}
	return &r
}
