// Package usable checks whether a container can use the HCAs that it gets, before its process starts or while it runs.
//
// The costliest fault makes no error: the node is there, a library cannot use it, and the job falls back to TCP. So
// the package looks where the libraries will look: at the providers of libibverbs, at the mode of the node, and at
// variables that name HCAs.
//
// A wrong warning is worse than none. What cannot be known is not seen: a container without libibverbs, or with one
// in a private prefix, files on FUSE or on the network, an unknown driver. A check that has not seen never fails a
// start.
//
// The root file system of a container is hostile. Root opens its files within bounds and without leaving it, and
// messages quote every text of it.
package usable
