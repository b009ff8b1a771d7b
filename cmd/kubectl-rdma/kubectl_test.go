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
	program := exec.Command("echo", "12345")
	program.Stdout = out
	must.NoError(t, program.Run())
	test.Eq(t, "123", string(out.kept))
}
