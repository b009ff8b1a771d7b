package doctor

import (
	"encoding/json"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/quote"
)

// tomlConfigs are the configuration files whose default_ulimits set the limits of all containers, with the directory of
// their drop-ins.
var tomlConfigs = []struct{ program, file, dropIns string }{
	{"podman", "/usr/share/containers/containers.conf", ""},
	{"podman", "/etc/containers/containers.conf", "/etc/containers/containers.conf.d"},
	{"CRI-O", "/etc/crio/crio.conf", "/etc/crio/crio.conf.d"},
}

const dockerConfig = "/etc/docker/daemon.json"

// checkUlimits finds runtimes whose configuration gives every container a small limit of locked memory. The limit goes
// into the OCI spec, and runc applies it after the hook.
func checkUlimits(f *facts, out *findings) {
	total := f.memTotal()
	report := func(program, file string, size hook.Size) {
		if size < total {
			out.add(found("memlock-configured", Warning, program+" is configured to give containers "+locked(size)).
				about(file).
				because("runc applies a configured limit after the hook, so this limit wins; crun applies it before the hook").
				fix("grep -n memlock " + quote.Shell(file)))
		}
	}
	if size, ok := f.dockerUlimit(); ok {
		report("Docker", dockerConfig, size)
	}
	for _, c := range tomlConfigs {
		files := []string{c.file}
		if c.dropIns != "" {
			for _, e := range f.list(c.dropIns) {
				files = append(files, path.Join(c.dropIns, e.Name()))
			}
		}
		for _, file := range files {
			text, _ := f.optional(file)
			if size, ok := tomlUlimit(text); ok {
				report(c.program, file, size)
			}
		}
	}
}

// dockerUlimit reads the default-ulimits of dockerd.
func (f *facts) dockerUlimit() (hook.Size, bool) {
	text, ok := f.optional(dockerConfig)
	var config struct {
		Ulimits map[string]struct{ Soft int64 } `json:"default-ulimits"`
	}
	if !ok || json.Unmarshal([]byte(text), &config) != nil { // dockerd does not start with such a file
		return 0, false
	}
	memlock, ok := config.Ulimits["memlock"]
	return ulimitSize(memlock.Soft), ok
}

// ulimitPattern matches an entry of default_ulimits: "memlock=65536:65536".
var ulimitPattern = regexp.MustCompile(`["']memlock=(-?\d+|unlimited)(?::|["'])`)

// tomlUlimit finds the limit of locked memory in a configuration file. It needs no TOML parser, because no other entry
// has the form of this one.
func tomlUlimit(text string) (hook.Size, bool) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if m := ulimitPattern.FindStringSubmatch(line); m != nil {
			if m[1] == "unlimited" {
				return hook.Unlimited, true
			}
			n, err := strconv.ParseInt(m[1], 10, 64)
			return ulimitSize(n), err == nil
		}
	}
	return 0, false
}

// ulimitSize converts a limit. -1 means no limit.
func ulimitSize(n int64) hook.Size {
	if n < 0 {
		return hook.Unlimited
	}
	return hook.Size(n)
}
