// Package needs ends tests that want more than the machine has, or more time than the run has.
//
// Such a test is skipped and says what is missing. make test leaves it to make proof, which installs more, and in CI, where
// the environment has CI=true, fails: a test that nobody runs proves nothing.
package needs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// Root is for tests that need root, and says what for.
func Root(t testing.TB, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, errors.New("needs root: "+why))
	}
}

// Program returns the path of a program, and says how to get it.
func Program(t testing.TB, name, how string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, fmt.Errorf("%w: %s", err, how))
	}
	return path
}

// Long skips a test for which only a long run has time. The reason says what it would cost, or names the test of the
// short run that shows the same promise to users.
func Long(t testing.TB, why string) {
	t.Helper()
	if !IsLong() {
		t.Skip("runs with TEST_LONG=1 alone: " + why)
	}
}

// IsLong reports whether this is a long run: larger seeds and counts, and more variants.
func IsLong() bool { return os.Getenv("TEST_LONG") != "" }

// Proof leaves a dear test to make proof. hack/test.sh runs with -short; hack/proof.sh runs what was skipped for this reason,
// which it knows by its first words.
func Proof(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("in make proof: " + why)
	}
}

// Missing ends a test for want of something.
func Missing(t testing.TB, err error) {
	t.Helper()
	Proof(t, err.Error())
	if CI() {
		t.Fatal(err)
	}
	t.Skip(err)
}

// CI reports whether nothing may be missing.
func CI() bool { return os.Getenv("CI") == "true" }
