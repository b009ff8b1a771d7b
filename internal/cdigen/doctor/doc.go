// Package doctor checks what RDMA in containers needs on one host. Does the kernel have the modules and nodes? Does a
// container get locked memory? Can the runtimes read the CDI specs?
//
// [Diagnose] checks a [Host] and returns a [Report] of findings. Each kind of finding is a value beside its check, with
// what the check looks at. What doctor could not look at, because it lacks a permission or the host root does not
// contain the file, is a finding of severity not-seen. A good finding that needs it is left out. Doctor never guesses.
//
// Checks write nothing and do not need root. Each check is a small function over facts that are gathered once. Tests
// can replace every part of a Host: two file systems, a function that runs commands, and the second opinion of rdmamap.
package doctor
