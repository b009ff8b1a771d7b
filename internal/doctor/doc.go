// Package doctor answers what a support engineer asks about RDMA in containers
// on one host: are the kernel's modules and nodes there, would a container get
// locked memory, can the runtimes read the CDI specs, and so on.
//
// [Diagnose] looks at a [Host] and returns a [Report] of findings. A finding has
// an [ID] that stays the same over versions, a severity, a reason, and a command
// that fixes it. What could not be looked at, for want of a right or because the
// host root does not show it, is listed as unseen rather than guessed.
//
// Each check is a small function in a file of its own over what was gathered
// once. Nothing here writes, and nothing needs root. A Host is made of values
// that a test can replace: two file systems, a function that runs a command, and
// the second opinion of rdmamap.
package doctor
