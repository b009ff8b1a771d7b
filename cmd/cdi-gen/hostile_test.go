package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
)

// What somebody may call a network interface, an HCA and a file: a command for a shell, a title and colours for a
// terminal, a direction of text, a row of a table.
const (
	hostileNetdev = "$(reboot)\x1b]0;x\x07"
	hostileIBDev  = "a'`reboot`\n\u202eerror  \t x\u009b"
	hostileFile   = "x $(reboot)\x1b[2J;\n ok.json"
)

// hostileHost is a machine whose names are hostile, as directories of its sysfs.
func hostileHost(t *testing.T) string {
	t.Helper()
	root := rdmatest.Root(t, "hgx-h100")
	rename(t, root, "mlx5_0", hostileIBDev)
	for _, dir := range []string{"class/net"} {
		entries, err := os.ReadDir(filepath.Join(root, "sys", dir))
		if err != nil || len(entries) == 0 {
			t.Fatalf("no interfaces: %v", err)
		}
		rename(t, root, entries[0].Name(), hostileNetdev)
	}
	specs := filepath.Join(root, "etc/cdi")
	must.NoError(t, os.MkdirAll(specs, 0o755))
	spec := "cdiVersion: 0.3.0\nkind: rdma.dev/hca\ndevices: [{name: a, containerEdits: {deviceNodes: [{path: " +
		"\"/dev/infiniband/uverbs0\\e]0;x\\a\"}]}}]\n"
	for name, text := range map[string]string{hostileFile: "\x1b[2J: [", "rdma.dev-hca.yaml": spec,
		"y" + hostileFile: spec, "z" + hostileFile: spec} {
		must.NoError(t, os.WriteFile(filepath.Join(specs, name), []byte(text), 0o644))
	}
	return root
}

// rename gives everything of a name another one: files, what links lead to, and what files say.
func rename(t *testing.T, root, from, to string) {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(filepath.Join(root, "sys"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		paths = append(paths, path)
		if target, err := os.Readlink(path); err == nil && slices.Contains(strings.Split(target, "/"), from) {
			parts := strings.Split(target, "/")
			for i := range parts {
				if parts[i] == from {
					parts[i] = to
				}
			}
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Symlink(strings.Join(parts, "/"), path)
		}
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			if err == nil && strings.TrimSpace(string(text)) == from {
				return os.WriteFile(path, []byte(to+"\n"), 0o644)
			}
		}
		return nil
	})
	must.NoError(t, err)
	slices.Reverse(paths) // what is below goes first
	for _, path := range paths {
		if filepath.Base(path) == from {
			must.NoError(t, os.Rename(path, filepath.Join(filepath.Dir(path), to)))
		}
	}
}

// TestHostileNames: no command writes what a terminal acts on, and no name makes a line of its own.
func TestHostileNames(t *testing.T) {
	root := hostileHost(t)
	file := filepath.Join(root, "etc/cdi", hostileFile)
	for _, args := range [][]string{
		{"list"}, {"list", "-o", "json"}, {"list", "-o", "yaml"}, {"list", "-o", "name"}, {"topology"},
		{"topology", "-o", "svg"}, {"topology", "-o", "json"},
		{"topology", "-o", "yaml"}, {"doctor"}, {"doctor", "-o", "json"}, {"doctor", "-o", "yaml"}, {"generate", "--no-hook"},
		{"generate", "--no-hook", "--check", "--to", file}, {"userspace"}, {"userspace", "-o", "json"},
		{"validate", file, filepath.Dir(file)}, {"devices"}, {"devices", "-o", "json"}, {"devices", "-o", "yaml"},
		{"devices", "-o", "name"}, {"args", "--for", "enroot", "*"}, {"args", "--for", "apptainer", hostileIBDev},
		{"apply", file, "--device", hostileIBDev}, {"configure", hostileIBDev}, {"report", "--to", file + "/x"},
		{"list", "--exclude", hostileIBDev}, {"list", "-o", hostileIBDev}, {hostileIBDev}, {"generate", "--config", file},
	} {
		if args[0] != "validate" && args[0] != hostileIBDev {
			args = append(args, "--host-root", root)
		}
		r := cdigen(t, args...)
		test.NotEq(t, "", r.stdout+r.stderr, test.Sprintf("%q says nothing", args))
		for stream, text := range map[string]string{"output": r.stdout, "error": r.stderr} {
			if i := strings.IndexFunc(text, func(r rune) bool {
				return r != '\n' && r != '\t' &&
					!unicode.IsGraphic(r)
			}); i >= 0 {
				t.Errorf("%q: a terminal acts on standard %s: %q", args, stream, text[max(i-80, 0):min(i+20, len(text))])
			}
		}
		for line := range strings.Lines(r.stdout) {
			if strings.HasPrefix(line, "\u202e") || strings.HasPrefix(line, "error  ") ||
				strings.HasPrefix(line, `\u202eerror`) {
				t.Errorf("%q: a name makes a line: %q", args, line)
			}
		}
	}
}

// TestHostileFix: in the commands of doctor each name is one word.
func TestHostileFix(t *testing.T) {
	r := cdigen(t, "doctor", "-o", "json", "--host-root", hostileHost(t))
	var report struct{ Findings []struct{ ID, Remedy string } }
	must.NoError(t, json.Unmarshal([]byte(r.stdout), &report))
	named := 0
	for _, f := range report.Findings {
		if strings.Contains(f.Remedy, "reboot") {
			named++
		}
		if outside := unquoted(f.Remedy); strings.Contains(outside, "reboot)") || strings.Contains(outside, "`") {
			t.Errorf("%s: a shell runs a part of %q: %q", f.ID, f.Remedy, outside)
		}
	}
	test.GreaterEq(t, 3, named, test.Sprintf("%d commands have a hostile name: the test looks at nothing", named))
}

// unquoted returns a command without what is in single quotes.
func unquoted(command string) string {
	var b strings.Builder
	inside, ansi := false, false
	for i := 0; i < len(command); i++ {
		switch c := command[i]; {
		case inside && ansi && c == '\\', !inside && c == '\\':
			i++
		case c == '\'':
			ansi = !inside && i > 0 && command[i-1] == '$'
			inside = !inside
		case !inside:
			b.WriteByte(c)
		}
	}
	return b.String()
}
