#!/bin/sh
# Prints packages.txt: the packages of the image with perftest, as Debian 12 has them now. Debian's signature vouches for
# the list. After a change, read the list's diff, and run go -C packaging test ./perftest ./release.
# It needs gpgv and debian-archive-keyring.
set -eu
mirror=${DRA_RDMA_DEBIAN_MIRROR:-http://deb.debian.org/debian}
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
get() { curl --fail --silent --show-error "$mirror/dists/bookworm/$1"; }
get InRelease >"$dir/InRelease"
gpgv --quiet --keyring /usr/share/keyrings/debian-archive-keyring.gpg --output "$dir/Release" "$dir/InRelease"
cat <<END
# Made by pin.sh from $mirror bookworm: architecture, package, version, SHA-256, path, license.
END
for arch in amd64 arm64; do
	file=main/binary-$arch/Packages.xz
	get "$file" >"$dir/Packages.xz"
	sum=$(awk -v file="$file" '/^[^ ]/ { sums = $1 == "SHA256:" } sums && $3 == file { print $1 }' "$dir/Release")
	echo "$sum  $dir/Packages.xz" | sha256sum --check --quiet --strict >&2
	xz --decompress --stdout "$dir/Packages.xz" >"$dir/Packages"
	while read -r name license; do
		awk -v arch=$arch -v name="$name" -v license="$license" '
			$1 == "Package:" { this = $2 == name }
			this && $1 == "Version:" { version = $2 }
			this && $1 == "Filename:" { path = $2 }
			this && $1 == "SHA256:" { sum = $2 }
			END { if (path == "") exit 1; print arch, name, version, sum, path, license }
		' "$dir/Packages"
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
done
