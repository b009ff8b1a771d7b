// Package userspace finds the RDMA user space of a host, so that a container
// whose image lacks it can be given the host's: libibverbs, librdmacm, the
// provider libraries of libibverbs, the libraries they need (libnl), and the
// directory that names the providers. The result is a [Plan]: a list of read-only
// bind mounts that needs no hook and no environment variable.
//
// Words: a provider is the user-space driver of an HCA, libmlx5-rdmav34.so; its
// file name carries the private ABI (34) that it shares with libibverbs, and its
// dynamic symbols need the version IBVERBS_PRIVATE_34 of it. A direct-verbs
// library is a provider that programs may also link, by its SONAME (libmlx5.so.1).
//
// How a container finds the libraries follows from three facts:
//
//   - libibverbs reads the names of providers from a directory, and loads each
//     from a directory, both compiled into it (IBV_CONFIG_DIR and
//     VERBS_PROVIDER_DIR of rdma-core). So these two are mounted at the path that
//     the host's libibverbs has compiled in, whatever the image.
//   - glibc's dynamic linker looks for a SONAME in /etc/ld.so.cache, then in the
//     directories compiled into it: those of multiarch on Debian
//     (/usr/lib/x86_64-linux-gnu), /usr/lib64 on RHEL, Fedora and SUSE. A library
//     that is not in the cache is found in these without running ldconfig. So
//     every SONAME is mounted in both.
//   - A bind mount replaces a file of the image at the same path, through the
//     symbolic links of the image. So an image's own rdma-core is replaced as a
//     whole, never by halves: all providers of the host go together.
//
// The host's glibc is never mounted. What the libraries need of the image's is in
// the plan, and [CheckImage] compares it with an unpacked image.
package userspace
