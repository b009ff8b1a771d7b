// Package hostfs reads files of a host, or of an unpacked image, below a directory that is not the root of this
// process.
//
// The owner of that directory may be an attacker, and this process often runs as root. So:
//
//   - The package resolves symbolic links as a process would that has the directory as its root. A container runtime on
//     the host resolves them in the same way. For this process, the same path may be another file, or none.
//   - It opens only regular files, and no open blocks. A FIFO would wait for a writer that never comes, and opening a
//     device node may have an effect.
//   - The caller bounds each read. A sparse file costs its owner nothing, but could cost the reader all of its memory.
//
// A test compares [Resolve] with the kernel on random trees of links. The package does not use
// openat2(RESOLVE_IN_ROOT): it is missing before Linux 5.6 and behind some seccomp filters, and it cannot say where to
// create a missing file. It does not use os.Root to resolve, because os.Root refuses absolute links. It does not use
// filepath-securejoin, because that treats a missing component and a file as directories. os.Root still opens the
// resolved path. So no file outside the directory is reached even if the directory changes meanwhile.
package hostfs
