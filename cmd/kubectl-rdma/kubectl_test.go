package main

import (
	"os/exec"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestLimited: a program in a pod that prints without end does not fill the user's memory.
func TestLimited(t *testing.T) {
	out := &limited{most: 3}
	program := exec.Command("seq", "100000") // more than what is copied at once
	program.Stdout = out
	must.NoError(t, program.Run())
	test.Eq(t, "1\n2", string(out.kept))
}
