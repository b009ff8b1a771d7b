// Package rosetta stands in for github.com/tonistiigi/go-rosetta, which the module
// proxy no longer has. The docker command asks it about macOS hosts only.
package rosetta

// Enabled reports whether the host runs amd64 programs by Rosetta.
func Enabled() bool { return false }
