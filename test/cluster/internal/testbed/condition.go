package testbed

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// Patience is how long a condition may take. The kubelet retries a failed Prepare after its sync frequency, which is
// 10 s here, and a failed mount after back-offs of up to a minute.
const Patience = 3 * time.Minute

// Eventually waits until a condition holds.
func Eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	for start := time.Now(); ; {
		err := condition()
		if err == nil {
			return
		}
		took := time.Since(start)
		must.LessEq(t, Patience, took, must.Sprintf("%s: after %v still: %v", what, Patience, err))
		// Most conditions start kubectl, which costs more than what is waited for.
		time.Sleep(min(100*time.Millisecond+took/10, time.Second))
	}
}

// ContainsAll says whether s has all the words.
func ContainsAll(s string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}

// ReadFile reads a file of the checkout or of the fixture host.
func ReadFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must.NoError(t, err)
	return string(data)
}
