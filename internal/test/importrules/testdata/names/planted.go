// Package planted names what no code has: a [Vanished] type, importrules.Vanishing, and VanishedToo. It has [Rule],
// importrules.Load and DIRECTORY.
package planted

// Rule is declared.
type Rule struct{}
