package runtimeconf

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// UnitDirs are the directories of systemd units. The first one wins (systemd.unit(5)).
var UnitDirs = []string{
	"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
	"/lib/systemd/system",
}

// UnitFiles lists the files of a unit in the order in which systemd applies them: the unit of the first directory, then
// the drop-ins by name. A drop-in hides one of the same name in a later directory. fault gets errors of directories.
func UnitFiles(host fs.ReadLinkFS, unit string, fault func(dir string, err error)) []string {
	var files []string
	dropIns := map[string]string{}
	for _, dir := range UnitDirs {
		if name := path.Join(dir, unit); len(files) == 0 {
			if _, err := hostfs.Stat(host, name); err == nil {
				files = append(files, name)
			}
		}
		entries, err := hostfs.ReadDir(host, path.Join(dir, unit+".d"), hostfs.MaxEntries)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			fault(path.Join(dir, unit+".d"), err)
		}
		for _, e := range entries {
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

// arguments are the words of a command line.
type arguments []string

// unitArgs returns the command line of a service. Variables in it stay as they are. It is empty if no unit can be read.
func unitArgs(host Host, unit string) arguments {
	var line string
	for _, name := range UnitFiles(host, unit, func(string, error) {}) {
		text, err := host.read(name)
		if err != nil {
			continue
		}
		for _, setting := range Settings(string(text), "ExecStart") {
			if line = setting; line != "" {
				line = strings.TrimLeft(setting, "@-:+!|")
			}
		}
	}
	args := strings.Fields(line)
	for i, arg := range args {
		args[i] = strings.Trim(arg, `"'`)
	}
	return args
}

// Settings returns the values of a setting of a unit file, with lines that a backslash continues.
func Settings(text, name string) []string {
	var values []string
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.TrimSpace(key) == name {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return values
}

// values returns the values of a flag, by any of its names, in the forms --flag=value and --flag value.
func (a arguments) values(names ...string) []string {
	var values []string
	for i, arg := range a {
		flag, value, joined := strings.Cut(arg, "=")
		if !slices.Contains(names, flag) {
			continue
		}
		if joined {
			values = append(values, value)
		} else if i+1 < len(a) {
			values = append(values, a[i+1])
		}
	}
	return values
}
