// Package userspace finds the RDMA user space of a host. A container whose image lacks this user space can then use
// the host's. It consists of libibverbs, librdmacm, the provider libraries of libibverbs, their dependencies (libnl),
// and the directory that names the providers. The result is a [Plan]: a list of read-only bind mounts. A plan needs no
// hook and no environment variable.
//
// Terms:
//
//   - A provider is the user-space driver of an HCA, such as libmlx5-rdmav34.so. Its file name contains the number of
//     the private ABI (34) that it shares with libibverbs. The provider requires the symbol version IBVERBS_PRIVATE_34
//     from libibverbs.
//   - A direct-verbs library is a provider that programs may also link, by its SONAME (libmlx5.so.1).
//
// Three facts determine how a container finds the libraries:
//
//   - libibverbs reads the names of providers from one directory and loads the providers from another. Both paths are
//     compiled into it (IBV_CONFIG_DIR and VERBS_PROVIDER_DIR of rdma-core). So a plan mounts both at the paths
//     compiled into the host's libibverbs, whatever the image.
//   - glibc's dynamic linker looks for a SONAME in /etc/ld.so.cache, then in the directories compiled into it. On
//     Debian these are the multiarch directories (/usr/lib/x86_64-linux-gnu), on RHEL, Fedora and SUSE /usr/lib64.
//     The linker finds a library in these directories even if the cache lacks it, so nobody needs to run ldconfig.
//     A plan mounts every SONAME in both.
//   - A bind mount replaces the image's file at the same path. The runtime follows the symbolic links of the image. So
//     a plan contains all providers of the host: it replaces the image's rdma-core as a whole, never in part.
//
// A plan never mounts the host's glibc. It says which glibc an image must have.
//
// Two other ways were rejected. LD_LIBRARY_PATH in a CDI spec replaces the image's own value, and does not apply to the
// providers. A hook that runs ldconfig, as nvidia-ctk has, adds a program to every container start and finds nothing
// more.
package userspace
