package record

import "github.com/rdma-dev/dra-driver-rdma/internal/base/finding"

// Kinds are the kinds of findings about a container's use of its HCAs, with what is looked at in the container. A
// finding has the kernel's name of the HCA as its subject, none if it concerns all HCAs. One of severity Error keeps
// the container from starting with --on-unusable fail.
var Kinds finding.Catalogue

// The kinds, the most important one first.
var (
	// Provider: libibverbs has a working provider for the kernel driver of the HCA.
	Provider = Kinds.Kind("provider", "/etc/ld.so.cache", "libibverbs", "/etc/libibverbs.d", "providers")
	// Permission: the container's user may open the node.
	Permission = Kinds.Kind("permission", "/dev/infiniband/*", "user namespace")
	// Memlock: the process gets the locked memory that was asked for.
	Memlock = Kinds.Kind("memlock", "limit of the process")
	// Variables: variables of libraries name HCAs that the container has.
	Variables = Kinds.Kind("variables", "/sys/class/infiniband_verbs/*/ibdev")
)
