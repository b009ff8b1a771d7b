package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
)

// TestBadUsage: every wrong flag or argument ends with code 2, names what is wrong
// and says what would be right. Nothing is printed on standard output.
func TestBadUsage(t *testing.T) {
	root := host(t, "roce-lag")
	put(t, filepath.Join(root, "opt/text"), "", 0o644)
	must.NoError(t, os.MkdirAll(filepath.Join(root, "opt/dir"), 0o755))
	for _, c := range []struct{ args, says string }{
		{"generate --bogus", "unknown flag: --bogus; see cdi-gen generate --help"},
		{"generate mlx5_0", `unknown argument "mlx5_0"; see cdi-gen generate --help`},
		{"genrate", `unknown argument "genrate", did you mean generate?; see cdi-gen --help`},
		{"--bogus", "unknown flag: --bogus; see cdi-gen --help"},
		{"generate --output", "flag needs an argument: --output"},
		{"generate --no-all=maybe", `invalid argument "maybe"`},
		{"generate --no-hook --device mlx5_7", `no device matches "mlx5_7": have mlx5_bond_0`},
		{"generate --no-hook --device [", `match devices with "["`},
		{"generate --no-hook --exclude [", `match devices with "["`},
		{"generate --no-hook --kind hca", `--kind "hca": want vendor/class`},
		{"generate --no-hook --kind -x/hca", `--kind "-x/hca": want vendor/class`},
		{"generate --no-hook --kind a/b/c", `--kind "a/b/c": want vendor/class`},
		{"generate --no-hook --kind aa/bb.cc", `--kind "aa/bb.cc": podman before 4.7 refuses a class with a dot`},
		{"generate --no-hook --names uuid", `--names: unknown name strategy "uuid": want ibdev, pci, guid or netdev`},
		{"generate --no-hook --names=", `invalid argument "" for "--names" flag: an empty value`},
		{"generate --no-hook --nodes=", `invalid argument "" for "--nodes" flag: an empty value`},
		{"generate --no-hook --nodes uverbs", `--nodes: unknown nodes "uverbs": want one of verbs, cm, psm, mad, sm`},
		{"generate --no-hook --output xml", `--output: unknown format "xml": want json or yaml`},
		{"generate --no-hook --to /nowhere/x.yml", `--to "/nowhere/x.yml": runtimes read only files that end in ` +
			`.json or .yaml`},
		{"generate --no-hook --to /nowhere/x.json --output yaml",
			`--to "/nowhere/x.json" ends in .json but --output is yaml`},
		{"generate --memlock 0", `--memlock: parse size "0"`},
		{"generate --memlock 4XB", `--memlock: parse size "4XB"`},
		{"generate --memlock -1", `--memlock: parse size "-1"`},
		{"generate --hook-path opt/text", `--hook-path "opt/text": want an absolute path on the host`},
		{"generate --no-hook --memlock 4Gi",
			"--no-hook leaves out the hook that --memlock, --hook-path, --on-denied and --on-unusable are for"},
		{"generate --on-denied warn", `--on-denied: want clamp, fail or ignore, not "warn"`},
		{"generate --no-hook --hook-path /x", "--no-hook leaves out the hook"},
		{"list --output xml", `--output "xml": want table, json, yaml or name`},
		{"list --kind hca", `--kind "hca": want vendor/class`},
		{"list --device mlx5_7", `no device matches "mlx5_7"`},
		{"list x", `unknown argument "x"`},
		{"validate", "name at least one file or directory; see cdi-gen validate --help"},
		{"remove --kind hca", `--kind "hca": want vendor/class`},
		{"remove x", `unknown argument "x"`},
		{"version x", `unknown argument "x"`},
		{"completion nosuch", `unknown argument "nosuch"; see cdi-gen completion --help`},
		{"completion bash x", `unknown argument "x"; see cdi-gen completion bash --help`},
		{"help nosuch", `unknown command "nosuch"; see cdi-gen --help`},
		{"help generate nosuch", `unknown command "generate nosuch"`},
	} {
		args := strings.Fields(c.args)
		if args[0] == "generate" || args[0] == "list" {
			args = append([]string{args[0], "--host-root", root}, args[1:]...)
		}
		r := cdigen(t, args...)
		r.expect(t, exitUsage, c.says)
		if r.stdout != "" || strings.Count(strings.TrimSpace(r.stderr), "\n") > 1 || !strings.Contains(r.stderr, "see cdi-gen") {
			t.Errorf("%s: standard output %q, standard error %q; want a message, where help is, and no more", c.args, r.stdout,
				r.stderr)
		}
	}
}

// TestMissingHook: a hook that a runtime cannot run is no bad flag, and has a code of its own.
func TestMissingHook(t *testing.T) {
	root := host(t, "roce-lag")
	put(t, filepath.Join(root, "opt/text"), "", 0o644)
	must.NoError(t, os.MkdirAll(filepath.Join(root, "opt/dir"), 0o755))
	for args, says := range map[string]string{
		"":                        "no such file or directory; install rdma-hook, name it with --hook-path, or do without it",
		"--hook-path /opt/absent": root + "/opt/absent: no such file or directory",
		"--hook-path /opt/text":   root + "/opt/text: permission denied",
		"--hook-path /opt/dir":    root + "/opt/dir: permission denied",
	} {
		cdigen(t, append([]string{"generate", "--host-root", root}, strings.Fields(args)...)...).expect(t, exitHook, says)
	}
}

// TestUnreadableHost: a root without a sysfs tree is an error, not a host without
// devices.
func TestUnreadableHost(t *testing.T) {
	empty, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	put(t, file, "", 0o644)
	for root, says := range map[string]string{
		empty:                          "no such file or directory (is this the root of a sysfs tree?)",
		file:                           "not a directory",
		filepath.Join(empty, "absent"): "discover the RDMA devices below \"" + empty + "/absent/sys\": read sysfs: ",
	} {
		for _, verb := range [][]string{{"generate", "--no-hook"}, {"list"}} {
			r := cdigen(t, append(verb, "--host-root", root)...)
			r.expect(t, exitIO, says)
		}
	}
}

// TestBrokenPipe: a result that cannot be written is an error.
func TestBrokenPipe(t *testing.T) {
	root := host(t, "roce-lag")
	for _, args := range [][]string{
		{"generate", "--no-hook", "--host-root", root},
		{"list", "--host-root", root},
		{"list", "-o", "json", "--host-root", root},
		{"list", "-o", "yaml", "--host-root", root},
		{"list", "-o", "name", "--host-root", root},
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), args, full{}, &stderr); code != exitIO ||
			!strings.Contains(stderr.String(), "the pipe is full") {
			t.Errorf("%s: exit code %d, standard error %q; want %d", args, code, &stderr, exitIO)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("the pipe is full") }

// TestHelp: what a person sees who asks, and who does not know what to ask.
func TestHelp(t *testing.T) {
	for args, says := range map[string]string{
		"":                "podman run --device rdma.dev/hca=mlx5_0 IMAGE",
		"--help":          "cdi-gen exit-codes",
		"help exit-codes": "Exit codes:",
		"generate --help": "--allow-exclusive-netns",
		"list --help":     "cdi-gen list -o name",
		"validate --help": "cdi-gen validate /etc/cdi /var/run/cdi",
		"remove --help":   "and no other file",
		"help generate":   "--hook-path",
		"help":            "Available Commands:",
		"completion":      "cdi-gen completion [command]",
		"completion bash": "bash completion V2 for cdi-gen",
		"version":         "cdi-gen ",
		"--version":       "cdi-gen ",
	} {
		r := cdigen(t, strings.Fields(args)...)
		r.expect(t, exitOK, "")
		test.StrContains(t, r.stdout, says, test.Sprintf("cdi-gen %s prints", args))
	}
}

// TestCompletion: the shells offer the values that a flag takes.
func TestCompletion(t *testing.T) {
	root := host(t, "roce-lag")
	for args, want := range map[string]string{
		"generate --names ":                           "ibdev\npci\nguid\nnetdev\n:4\n",
		"generate --nodes ":                           "verbs\ncm\npsm\nmad\nsm\n:4\n",
		"generate --output ":                          "json\nyaml\n:4\n",
		"watch --userspace ":                          "image\nhost\n:4\n",
		"generate --host-root " + root + " --device ": "mlx5_bond_0\npci-0000-3b-00-0\n:4\n",
		"list --host-root " + root + " --exclude ":    "mlx5_bond_0\npci-0000-3b-00-0\n:4\n",
		"list --host-root /absent --device ":          ":1\n",
		"list --output ":                              "json\nname\ntable\nyaml\n:4\n",
		"doctor --output ":                            "json\ntable\nyaml\n:4\n",
		"topology --output ":                          "json\nmatrix\nsvg\ntree\nyaml\n:4\n",
		"generate --to ":                              ":0\n", // files
	} {
		r := cdigen(t, append([]string{"__completeNoDesc"}, strings.Split(args, " ")...)...)
		if r.stdout != want || r.code != exitOK {
			t.Errorf("cdi-gen %s<TAB>: exit code %d, %q; want %q", args, r.code, r.stdout, want)
		}
	}
	test.StrContains(t, cdigen(t, "__completeNoDesc", "generate", "--target", "podman-4").stdout, "podman-4.3\n",
		test.Sprint("targets"))
}

// TestSignals: a kernel that does not answer cannot keep the program from ending.
func TestSignals(t *testing.T) {
	root := rdmatest.Root(t, "roce-lag")
	hca, err := filepath.EvalSymlinks(filepath.Join(root, "sys/class/infiniband/mlx5_bond_0"))
	must.NoError(t, err)
	guid := filepath.Join(hca, "node_guid")
	must.NoError(t, errors.Join(os.Remove(guid), syscall.Mkfifo(guid, 0o644)))
	silent, err := os.OpenFile(guid, os.O_RDWR, 0) // a writer that writes nothing
	must.NoError(t, err)
	defer silent.Close()
	cmd := program(t, "list", "--host-root", root)
	must.NoError(t, cmd.Start())
	await(t, "the program waits", func() bool {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", cmd.Process.Pid))
		return slices.ContainsFunc(fds, func(fd string) bool {
			file, _ := os.Readlink(fd)
			return file == guid
		})
	})
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	await(t, "the end of the program", func() bool {
		_ = cmd.Process.Signal(os.Interrupt) // an error once it has ended
		return len(ended) > 0
	})
}
