#!/bin/sh
# Prints packages.txt: the packages of the image with perftest, as Debian 12 has them now. After a change, read the
# list's diff, and run go -C packaging test ./perftest ./release.
set -eu
mirror=${DRA_RDMA_DEBIAN_MIRROR:-http://deb.debian.org/debian}
cat <<END
# Made by pin.sh from $mirror bookworm: architecture, package, version, SHA-256, path, license.
END
for arch in amd64 arm64; do
	index=$(mktemp)
	curl --fail --silent --show-error "$mirror/dists/bookworm/main/binary-$arch/Packages.xz" | xz --decompress >"$index"
	while read -r name license; do
		awk -v arch=$arch -v name="$name" -v license="$license" '
			$1 == "Package:" { this = $2 == name }
			this && $1 == "Version:" { version = $2 }
			this && $1 == "Filename:" { path = $2 }
			this && $1 == "SHA256:" { sum = $2 }
			END { if (path == "") exit 1; print arch, name, version, sum, path, license }
		' "$index"
	done <<END
perftest BSD-2-Clause OR GPL-2.0-only
ibverbs-providers Linux-OpenIB OR GPL-2.0-only
libibverbs1 Linux-OpenIB OR GPL-2.0-only
librdmacm1 Linux-OpenIB OR GPL-2.0-only
libibumad3 Linux-OpenIB OR GPL-2.0-only
libnl-3-200 LGPL-2.1-only
libnl-route-3-200 LGPL-2.1-only
libpci3 GPL-2.0-or-later
libudev1 LGPL-2.1-or-later
zlib1g Zlib
libc6 LGPL-2.1-or-later
libgcc-s1 GPL-3.0-or-later WITH GCC-exception-3.1
gcc-12-base GPL-3.0-or-later WITH GCC-exception-3.1
busybox-static GPL-2.0-only
END
	rm "$index"
done
