package yamlread_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"go.yaml.in/yaml/v3"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
)

// config has what files of this project have.
type config struct {
	Name  string                    `yaml:"name"`
	Env   map[string]string         `yaml:"env"`
	IPAM  map[string]map[string]any `yaml:"ipam"`
	Rules []struct {
		Name string `yaml:"name"`
	} `yaml:"rules"`
}

// hostile are files that took all memory, or much time, before they were bounded.
var hostile = map[string]string{
	"one key":               strings.Repeat("a: b\n", 50_000),
	"one key in any":        "ipam:\n  x:\n" + strings.Repeat("    a: b\n", 20_000),
	"second document":       "name: x\n---\n" + strings.Repeat("a: b\n", 20_000),
	"pairs of keys":         strings.Repeat("a: 1\nb: 2\n", 10_000),
	"many keys":             "ipam: {x: {" + numbered("k%d: 1, ", 7_000) + "}}",
	"many small values":     "rules: [" + strings.Repeat("{},", 80_000) + "]",
	"keys without a value":  "env: {" + strings.Repeat("a,", 120_000) + "}",
	"deep lists":            strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000),
	"deep list without end": strings.Repeat("[", 200_000),
	"deep blocks":           deepBlocks(600),
	"doubled aliases":       doubled(40, "x"),
	"aliases of a text": "a: &a " + strings.Repeat("x", 100_000) + "\nrules: [" +
		strings.Repeat("{name: *a},", 4_000) + "]",
	"alias of itself": "ipam: {x: &a {y: *a}}",
	"unknown fields":  numbered("f%d: 1\n", 4_900),
	"wrong types":     "env: {" + numbered("k%d: [], ", 4_500) + "}",
	"too large":       "name: " + strings.Repeat("x", 300<<10),
	"merges": "a: &a {" + numbered("k%d: 1, ", 3_000) + "}\nipam: {x: {<<: [" +
		strings.Repeat("*a, ", 3_000) + "]}}",
}

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func deepBlocks(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	return b.String()
}

// doubled is the billion laughs.
func doubled(n int, leaf string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "ipam:\n  a0: &a0 {x: %s}\n", leaf)
	for i := range n {
		fmt.Fprintf(&b, "  a%d: &a%d {x: *a%d, y: *a%d}\n", i+1, i+1, i, i)
	}
	return b.String()
}

// TestHostile: each file is refused in few words, and with little memory. What is allocated in all is
// counted, which does not depend on how busy the machine is.
func TestHostile(t *testing.T) {
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := yamlread.Config.Decode([]byte(text), new(config))
			runtime.ReadMemStats(&after)
			must.Error(t, err, must.Sprint("it is taken"))
			if typed, ok := err.(*yaml.TypeError); ok {
				err = yamlread.JoinTexts(typed.Errors, func(s string) error { return fmt.Errorf("%s", s) })
			}
			if lines := strings.Count(err.Error(), "\n") + 1; lines > 11 || len(err.Error()) > 2000 {
				t.Errorf("the error has %d lines and %d bytes", lines, len(err.Error()))
			}
			test.LessEq(t, 32, (after.TotalAlloc-before.TotalAlloc)>>20,
				test.Sprintf("a file of %d KiB takes", len(text)>>10))
		})
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"": "it is empty",
		"a: 1\nb: 2\na: 3\na: 4": "line 3: mapping key \"a\" already defined at line 1\nline 4: mapping key \"a\" " +
			"already defined at line 1",
		strings.Repeat("a: 1\n", 12):   "and 1 more error",
		strings.Repeat("a: 1\n", 1500): "and 1489 more errors",
		"name: x\n---\nname: y":        "it has more than one document",
		"name: x\n--- [":               "it has more than one document",
		hostile["alias of itself"]:     "line 1: alias \"a\" is part of what it stands for",
		hostile["too large"]:           "it is larger than 256 KiB",
		hostile["many small values"]:   "it has more than 20000 keys and values",
		hostile["doubled aliases"]:     "it has more than 20000 keys and values",
		hostile["aliases of a text"]:   "it has more than 256 KiB of text",
		hostile["many keys"]:           "line 1: it has more than 5000 keys in one place",
		"ipam: {x: {y: " + strings.Repeat("[", 70) + strings.Repeat("]", 70) + "}}": "line 1: it is nested more than 64 deep",
		"rules: {": "did not find",
		"nam: x":   "field nam not found",
	} {
		test.ErrorContains(t, yamlread.Config.Decode([]byte(text), new(config)), want, test.Sprintf("%.40q", text))
	}
}

// TestTaken: the bounds are far from what people write.
func TestTaken(t *testing.T) {
	for name, text := range map[string]string{
		"anchors":   "a: &a {name: x}\n",
		"rules":     "rules:\n" + numbered("- {name: rule%d}\n", 4000),
		"a text":    "name: |\n" + strings.Repeat("  device.attributes[\"rdma.dev\"].ibdev == 'mlx5_0' &&\n", 200),
		"variables": "env:\n" + numbered("  NCCL_%d: \"1\"\n", 4000),
	} {
		var c config
		if err := yamlread.Config.Decode([]byte(text), &c); err != nil && name != "anchors" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := yamlread.Config.Parse([]byte(hostile["many keys"][:200] + "}}")); err != nil {
		t.Error(err)
	}
	if _, err := yamlread.Config.Parse([]byte("name: x\n---\n[")); err != nil {
		t.Errorf("the second document counts: %v", err)
	}
}

// TestRead: what is read is bounded. Only an argument may be a pipe, and only one that the shell passes.
func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "large.yaml")
	must.NoError(t, os.WriteFile(file, nil, 0o644))
	if err := os.Truncate(file, 4<<40); err != nil { // holes take no room
		t.Fatal(err)
	}
	zero, err := os.Open("/dev/zero")
	must.NoError(t, err)
	defer zero.Close()
	passed := fmt.Sprintf("/dev/fd/%d", zero.Fd())
	argument := func(name string) ([]byte, error) { return yamlread.Config.ReadArgument(name, zero) }
	for _, c := range []struct {
		read       func(string) ([]byte, error)
		name, says string
	}{
		{yamlread.Config.Read, file, "larger than 256 KiB"},
		{argument, file, "larger than 256 KiB"},
		{yamlread.Config.Read, "/dev/zero", "not a regular file"},
		{yamlread.Config.Read, passed, "not a regular file"},
		{argument, "/dev/zero", "not a regular file"},
		{argument, passed, "larger than 256 KiB"},
	} {
		if _, err := c.read(c.name); err == nil || !strings.Contains(err.Error(), c.name) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.says)
		}
	}
	if _, err := argument("-"); err == nil || !strings.Contains(err.Error(), "standard input") {
		t.Errorf("standard input without an end: error %v", err)
	}
	must.NoError(t, os.WriteFile(file, []byte("name: x"), 0o644))
	if data, err := yamlread.Config.Read(file); err != nil || string(data) != "name: x" {
		t.Errorf("%q, %v", data, err)
	}
}

// FuzzDecode: what is taken is what the decoder by itself makes of the file.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{"name: x", "ipam: {a: {b: [1, &x {y: *x}]}}", "? [a]\n: b", "{a: 1, a: 2}",
		"<<: {name: x}", "\xff\xfen\x00a\x00", "%YAML 1.1\n---\nname: x\n..."} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var ours, theirs config
		if err := yamlread.Config.Decode(data, &ours); err != nil {
			return
		}
		must.NoError(t, yaml.Unmarshal(data, &theirs), must.Sprint("it is taken, and the decoder"))
		test.Eq(t, fmt.Sprint(theirs), fmt.Sprint(ours), test.Sprintf("it is %v, want %v", ours, theirs))
	})
}
