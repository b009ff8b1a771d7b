package main

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// TestLog: what somebody named a thing does not act on the terminal on which a log is read. klog itself quotes values,
// but for those of several lines, and no messages.
func TestLog(t *testing.T) {
	t.Cleanup(func() {
		var flags flag.FlagSet
		klog.InitFlags(&flags)
		test.NoError(t, flags.Set("logtostderr", "true"))
	})
	var out bytes.Buffer
	logTo(text.Writer(&out))
	klog.Background().Error(errors.New("first\nsecond \x1b]0;x\x07"), "about \u202ex", "name", "a\n\x1b[2J")
	klog.Background().Info("so\nI1125 10:00:00.000000 1 driver.go:1] forged " + strings.Repeat("x", 1<<20))
	klog.Flush()
	for line := range strings.Lines(out.String()) {
		if len(line) > 100_000 || strings.Contains(line, "forged") && !strings.HasPrefix(line, "\t") && !strings.Contains(line, `\n`) {
			t.Errorf("a line of the log has %d bytes: %.80q", len(line), line)
		}
	}
	if text := out.String(); !strings.Contains(text, "second") || strings.ContainsAny(text, "\x1b\x07\u202e") ||
		strings.Count(text, "about") != 1 {
		t.Errorf("the log is %q", text)
	}
}
