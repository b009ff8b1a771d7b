package record

// The IDs of findings about a container's use of its HCAs. A finding has the kernel's name of the HCA as its subject,
// none if it concerns all HCAs. One of severity Error keeps the container from starting with --on-unusable fail.
const (
	Provider   = "provider"   // libibverbs has a working provider for the kernel driver of the HCA
	Permission = "permission" // the container's user may open the node
	Memlock    = "memlock"    // the process gets the locked memory that was asked for
	Variables  = "variables"  // variables of libraries name HCAs that the container has
)

// Kinds are all IDs.
var Kinds = []string{Provider, Permission, Memlock, Variables}
