// Package doctor checks what RDMA in containers needs on one host. Does the kernel have the modules and nodes? Does a
// container get locked memory? Can the runtimes read the CDI specs?
//
// [Diagnose] checks a [Host] and returns a [Report] of findings. A finding has an [ID] that is stable across versions,
// a severity, a reason, and a command that fixes it. The report lists as unseen what doctor could not check: it lacks a
// permission, or the host root does not contain the file. Doctor never guesses.
//
// Checks write nothing and do not need root. Each check is a small function over facts that are gathered once. Tests
// can replace every part of a Host: two file systems, a function that runs commands, and the second opinion of rdmamap.
package doctor
