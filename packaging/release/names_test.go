package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// hostileNames are names that git allows for tags. A shell would make the file "touched" of each.
var hostileNames = []string{
	"v1$(touch${IFS}touched)", "v1`touch${IFS}touched`", "v1';touch${IFS}touched;'", "v1\"&touch${IFS}touched&\"",
	"v1;touch${IFS}touched", "v1|touch${IFS}touched", "v1&touch${IFS}touched", "v1$(shell${IFS}touch${IFS}touched)",
	"v9.9.9'-extld=touched", "release/v1", "v1>touched", "v1#", "v\u0131",
}

// forked is a checkout in a directory with a space, where a name of somebody else is the nearest tag.
func forked(t *testing.T, tag string) (dir string, git func(args ...string)) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "a checkout")
	for _, name := range []string{"Makefile", "hack/version.sh", "hack/publish.sh"} {
		text, err := os.ReadFile(filepath.Join(checkout, name))
		must.NoError(t, err)
		write(t, filepath.Join(dir, name), string(text), 0o755)
	}
	git = func(args ...string) {
		t.Helper()
		tool(t, "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com",
			"-c", "commit.gpgSign=false", "-c", "tag.gpgSign=false"}, args...)...)
	}
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "--message", "first")
	git("tag", "v1.2.3")
	git("commit", "--quiet", "--allow-empty", "--message", "second")
	git("tag", "--", tag)
	return dir, git
}

// TestHostileTags: no name of a tag is run by a target of the Makefile, whatever characters it has. The version then is
// that of the nearest tag whose name is a version.
func TestHostileTags(t *testing.T) {
	need(t, "git", "git")
	tools := t.TempDir()
	for _, name := range []string{"go", "npx", "npm", "oras", "cosign", "helm", "gh"} {
		recorder(t, tools, name, "")
	}
	for _, tag := range hostileNames {
		dir, _ := forked(t, tag)
		recorder(t, filepath.Join(dir, "packaging"), "image.sh", "")
		recorder(t, filepath.Join(dir, "packaging"), "dist.sh", "")
		for _, args := range [][]string{{"-n", "build"}, {"build"}, {"-k", "image", "dist", "publish", "docs"}} {
			cmd := exec.Command("make", append([]string{"-C", dir}, args...)...)
			log := filepath.Join(t.TempDir(), "calls")
			cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "CALLS="+log)
			out, err := cmd.CombinedOutput()
			calls, _ := os.ReadFile(log)
			if made, _ := filepath.Glob(filepath.Join(dir, "*touched*")); len(made) > 0 {
				t.Errorf("the tag %q made %q in make %q", tag, made, args)
				_ = os.Remove(made[0])
			}
			test.StrContains(t, string(out), "the nearest tag is no version",
				test.Sprintf("make %q does not say that it passes over the tag %q: %s", args, tag, out))
			if args[0] == "build" && (err != nil || !strings.Contains(string(calls), ".Version=v1.2.3-1-g")) {
				t.Errorf("make build with the tag %q: %v: %s\ncalls %s", tag, err, out, calls)
			}
		}
	}
}

// TestHostileVersion: a version that a caller gives reaches the linker only if it is one.
func TestHostileVersion(t *testing.T) {
	dir, _ := forked(t, "v1.2.4")
	tools := t.TempDir()
	recorder(t, tools, "go", "")
	for _, version := range []string{"v1 -extld=./touched", "v1\";touch touched;\"", "-v", "v1;touch touched"} {
		log := filepath.Join(t.TempDir(), "calls")
		cmd := exec.Command("make", "-C", dir, "build")
		cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "CALLS="+log, "VERSION="+version)
		out, err := cmd.CombinedOutput()
		if calls, _ := os.ReadFile(log); err == nil || len(calls) > 0 || !strings.Contains(string(out), "is no version") {
			t.Errorf("make build with the version %q: %v: %s\ncalls %s", version, err, out, calls)
		}
		if says, err := dist(t, checkout, t.TempDir(), version); err == nil || !strings.Contains(says, "is no version") {
			t.Errorf("a package with the version %q: %v: %s", version, err, says)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "touched")); err == nil {
		t.Error("a version was run")
	}
}
