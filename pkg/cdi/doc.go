// Package cdi turns an RDMA device into the edits that a container runtime
// makes, in the form of the Container Device Interface
// (https://github.com/cncf-tags/container-device-interface, SPEC.md).
//
// A CDI spec is a file that a runtime reads when it creates a container. It has
// a kind, "vendor/class", and named devices. A container that requests
// "rdma.dev/hca=mlx5_0" gets the edits of that device. It also gets, once for each
// spec, the edits at the spec's own level.
//
// The steps of the package:
//
//	HCA, nodes, hook  ->  Device  ->  NewSpec  ->  Encode  ->  Store
//
// # The content of an edit
//
// A device node is named by its path alone. Without type, major and minor the
// runtime reads the node when it creates the container. So a missing device is an
// error instead of a wrong device, although uverbs numbers change. The path is
// the same inside and outside, because libibverbs opens nodes under the kernel's
// names. Permissions are "rw": a container must not make nodes.
//
// Locked memory and limits on an HCA need a hook (see docs/hook.md): CDI has no
// rlimits and no rdma controller.
//
// # Old runtimes
//
// A runtime rejects a whole file whose cdiVersion it does not know, and some say
// only "unresolvable CDI devices". So a spec carries the lowest version that has
// its fields, and nothing here needs more than 0.3.0: no hostPath, no
// annotations, no additionalGids, and device names that start with a letter.
package cdi
