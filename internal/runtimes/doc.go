// Package runtimes knows which container runtime reads which CDI specs: the
// highest CDI version it understands, the directories it looks into, and whether
// it does so without being told to.
//
// A runtime refuses a whole file whose version it does not know, or a field of
// which it has not heard, and often says no more than "unresolvable CDI devices".
// So this is checked before, with one table that cdi-gen, doctor and the
// documentation (docs/runtimes.md) share.
//
// A row is a fact about the CDI library in the go.mod of a release. The rows of
// one runtime hold from their version up to the next row.
package runtimes
