package e2e

import "testing"

// TestAlignment: the scheduler aligns every claim that can be aligned. Eight GPUs of
// the host have an HCA of their own below their root and switch. Package gates counts
// the claims by root and with a fallback; test/gpudriver counts all on all hosts.
func TestAlignment(t *testing.T) {
	n := bed.Namespace(t)
	n.Align("aligned-root", 1, 1, bed.SameRoot)
	n.Align("aligned-switch", 8, 8, bed.SameSwitch)
	n.Align("aligned-fallback", 1, 1, bed.SameRoot)
	n.Align("aligned-pairs", 2, 8, bed.SameRoot)
}
