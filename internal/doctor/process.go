package doctor

import (
	"encoding/json"
	"path"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/hostfs"
)

// process holds the identity and the rights of a process, as the kernel reports them.
type process struct {
	uid    int  // effective
	nested bool // in a PID namespace below the host's
	// raises reports whether the process, and the hooks that it starts, may raise a hard limit. They need
	// CAP_SYS_RESOURCE in the user namespace of the host: user 0 is not enough.
	raises bool
}

// ofHost reports whether a process is a service of the host. A user or a container can run a program of the same name.
func (p process) ofHost() bool { return p.uid == 0 && !p.nested }

// capSysResource is the number of CAP_SYS_RESOURCE (include/uapi/linux/capability.h).
const capSysResource = 24

// processOf reads the status of a process, "self" for this process. If the status cannot be read, the process has no
// rights.
func (f *facts) processOf(pid string) process {
	status, _ := f.optional("/proc/" + pid + "/status")
	p := process{uid: -1, nested: len(fieldsOf(status, "NSpid:")) > 1}
	if ids := fieldsOf(status, "Uid:"); len(ids) > 1 {
		p.uid, _ = strconv.Atoi(ids[1])
	}
	p.raises = mayRaise(status, "CapEff:") && mayRaise(status, "CapBnd:") && f.inHostUserNamespace(pid)
	return p
}

// mayRaise reports whether a capability set of a status has CAP_SYS_RESOURCE.
func mayRaise(status, set string) bool {
	bits, err := strconv.ParseUint(strings.Join(fieldsOf(status, set), ""), 16, 64)
	return err == nil && bits&(1<<capSysResource) != 0
}

// fieldsOf returns the fields of the first line that begins with a key, without the key.
func fieldsOf(text, key string) []string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return strings.Fields(rest)
		}
	}
	return nil
}

// inHostUserNamespace reports whether a process is in the first user namespace. The kernel checks capabilities there:
// in a user namespace of its own a process can have all of them.
func (f *facts) inHostUserNamespace(pid string) bool {
	text, ok := f.optional("/proc/" + pid + "/uid_map")
	return !ok || strings.Join(strings.Fields(text), " ") == "0 0 4294967295"
}

// maxReport bounds the size of a report of the hook. Real reports have less than 4 KiB.
const maxReport = 64 << 10

// lastReport returns the newest report of the specs' hooks about a limit, nil if there is none.
func (f *facts) lastReport() *hook.Report {
	var last *hook.Report
	for _, o := range f.hookOptions() {
		if o.Report == "" {
			continue
		}
		for _, e := range f.list(o.Report) {
			name := path.Join(o.Report, e.Name())
			info, err := hostfs.Stat(f.Root, name)
			if path.Ext(name) != ".json" || err != nil || !info.Mode().IsRegular() || info.Size() > maxReport {
				continue // a temporary file, or the driver has removed it, or it is not a report
			}
			var r hook.Report
			text, _ := f.optional(name)
			if json.Unmarshal([]byte(text), &r) == nil && r.Want != nil && (last == nil || r.Time.After(last.Time)) {
				last = &r
			}
		}
	}
	return last
}
