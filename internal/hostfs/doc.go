// Package hostfs reads files of a host, or of an unpacked image, below a directory that is
// not the root of this process.
//
// Whoever fills that directory may be an attacker, and this process is often root. So:
//
//   - A symbolic link leads where it leads a process that has the directory as its root.
//     That is what a container runtime on the host sees; the process that looks may have
//     another file at the same path, or none.
//   - Only regular files are opened, and no open blocks. A FIFO would wait for a writer
//     that never comes, and a device node may do something by being opened.
//   - Each read is bounded by its caller. A sparse file costs its owner nothing, and its
//     reader all of its memory.
//
// [Resolve] is compared with the kernel on random trees of links. It is not
// openat2(RESOLVE_IN_ROOT): that is missing before Linux 5.6 and behind some seccomp
// filters, and cannot say where a missing file would be made. It is not os.Root, which
// refuses absolute links, nor filepath-securejoin, which takes a missing component and a
// file for directories. os.Root still opens what was resolved: where the directory changes
// meanwhile, nothing outside of it is reached.
package hostfs
