package capture

import (
	"io/fs"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// maxNames bounds the files of a host that have its names.
const maxNames = 1 << 20

// NamesOf reads the names of a host and of its users. A file that cannot be read has none.
func NamesOf(root fs.ReadLinkFS) Names {
	var names Names
	read := func(file string) string {
		data, _ := hostfs.ReadFile(root, file, maxNames)
		return string(data)
	}
	own := map[string]bool{}
	for _, file := range []string{"/etc/hostname", "/proc/sys/kernel/hostname"} {
		for _, name := range strings.Fields(read(file)) {
			names.Hosts = append(names.Hosts, name)
			own[name] = true
		}
	}
	// The lines of the host itself have its domain, which its other files may lack.
	for line := range strings.Lines(read("/etc/hosts")) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		ours := len(fields) > 1 && strings.HasPrefix(fields[0], "127.")
		for _, name := range fields[min(1, len(fields)):] {
			short, _, _ := strings.Cut(name, ".")
			ours = ours || own[name] || own[short]
		}
		if ours {
			names.Hosts = append(names.Hosts, fields[1:]...)
		}
	}
	if domain := strings.TrimSpace(read("/proc/sys/kernel/domainname")); strings.Contains(domain, ".") {
		names.Hosts = append(names.Hosts, domain)
	}
	for line := range strings.Lines(read("/etc/passwd")) {
		fields := strings.Split(line, ":")
		if len(fields) < 3 {
			continue
		}
		// login.defs(5): people have IDs from UID_MIN on, nobody the last of 16 bits.
		if id, err := strconv.Atoi(fields[2]); err == nil && id >= 1000 && id != 65534 {
			names.Users = append(names.Users, fields[0])
		}
	}
	return names
}
