package main

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/quote"
)

// TestLog: what somebody named a thing does not act on the terminal on which a log is read. klog itself quotes values,
// but for those of several lines, and no messages.
func TestLog(t *testing.T) {
	t.Cleanup(func() {
		var flags flag.FlagSet
		klog.InitFlags(&flags)
		if err := flags.Set("logtostderr", "true"); err != nil {
			t.Error(err)
		}
	})
	var out bytes.Buffer
	logTo(quote.Writer(&out))
	klog.Background().Error(errors.New("first\nsecond \x1b]0;x\x07"), "about \u202ex", "name", "a\n\x1b[2J")
	klog.Flush()
	if text := out.String(); !strings.Contains(text, "second") || strings.ContainsAny(text, "\x1b\x07\u202e") ||
		strings.Count(text, "about") != 1 {
		t.Errorf("the log is %q", text)
	}
}
