// Package rdmacore knows how rdma-core lies in a root file system: which provider serves which kernel driver, what
// libibverbs has compiled in, which files name its providers, and where a dynamic linker looks for a library. It parses
// bytes and opens nothing itself, so that the hook, which runs in every container start, and cdi-gen share it.
//
// Everything that it parses may come from an image that wants to do harm. Every table has a bound, and a name that
// another name's memory holds costs none.
//
// The package links only the standard library.
package rdmacore
