// Package cdi turns an RDMA device into the edits that a container runtime
// makes, in the form of the Container Device Interface
// (https://github.com/cncf-tags/container-device-interface, SPEC.md).
//
// A CDI spec is a file that a runtime reads when it creates a container. It has
// a kind, "vendor/class", and named devices; a container asks for
// "rdma.dev/hca=mlx5_0" and gets the container edits of that device, and once
// for each spec it uses the edits that stand at the spec's own level.
//
// The way through the package is short:
//
//	HCA, nodes, hook  ->  Device  ->  NewSpec  ->  Encode  ->  Store
//
// # What is in an edit, and what is not
//
// A device node is named by its path alone. Without type, major and minor the
// runtime looks at the node when it creates the container, and a device that is
// gone is an error instead of a wrong device: uverbs numbers move. The path is
// the same inside and outside, because libibverbs opens nodes under the kernel's
// names. Permissions are "rw": a container has no business making nodes.
//
// Locked memory and limits on an HCA need a hook (see docs/hook.md): CDI knows no
// rlimits and no rdma controller.
//
// # Old runtimes
//
// A runtime refuses a whole file whose cdiVersion it does not know, and some say
// only "unresolvable CDI devices". So a spec carries the lowest version that
// says what it says, and nothing here needs more than 0.3.0: no hostPath, no
// annotations, no additionalGids, and device names that start with a letter.
package cdi
