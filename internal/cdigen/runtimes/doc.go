// Package runtimes knows which container runtime reads which CDI specs: the
// highest CDI version it understands, the directories it looks into, and whether
// it does so without being told to.
//
// A runtime refuses a whole file if it does not know the version or a field of the
// file. It often says no more than "unresolvable CDI devices". So we check this
// before. cdi-gen, doctor and the documentation (docs/runtimes.md) share one table
// for this.
//
// A row is a fact about the CDI library in the go.mod of a release. The rows of
// one runtime hold from their version up to the next row.
package runtimes
