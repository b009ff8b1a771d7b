package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/shoenig/test"
)

// The host's own reports are whole, whatever this host is.
func TestDoctorOnThisHost(t *testing.T) {
	r := cdigen(t, "doctor")
	test.SliceContains(t, []int{exitOK, exitWarnings, exitErrors}, r.code, test.Sprint(r.stderr))
	test.NotEq(t, "", r.stdout)
}

func TestIsTerminal(t *testing.T) {
	test.False(t, isTerminal(&bytes.Buffer{}), test.Sprint("a buffer is a terminal"))
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("needs a pseudo terminal: %v", err)
	}
	defer func() {
		test.NoError(t, pty.Close())
	}()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	test.True(t, isTerminal(pty), test.Sprint("a terminal is none"))
	t.Setenv("NO_COLOR", "1")
	test.False(t, isTerminal(pty), test.Sprint("NO_COLOR has no effect"))
}
