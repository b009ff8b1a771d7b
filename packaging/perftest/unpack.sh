#!/bin/bash
# Writes the files of the image with which kubectl rdma test measures, but for the plugin, into a new directory:
# perftest, the libraries that it needs and a shell, from Debian's packages. packages.txt has their checksums, so the
# same list gives the same files wherever they come from.
#
#   packaging/perftest/unpack.sh ARCHITECTURE DIRECTORY
#
# DRA_RDMA_CACHE and DRA_RDMA_DEBIAN_MIRROR are the cache and the mirror of the tests.
set -euo pipefail
arch=$1 root=$2
list=$(dirname "$0")/packages.txt
cache=${DRA_RDMA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dra-driver-rdma}/debian
# The snapshot has packages for which Debian has newer versions.
mirrors="${DRA_RDMA_DEBIAN_MIRROR:-http://deb.debian.org/debian}
https://snapshot.debian.org/archive/debian/20260801T000000Z"
# The image has one program of perftest, libraries, the providers of RDMA devices, a shell, and the licenses.
wanted='^(usr/bin/ib_write_bw|bin/busybox|etc/libibverbs\.d/.*|(usr/)?lib(64)?/.*|usr/share/doc/[^/]*(/copyright)?)$'
unwanted='/gconv/|^usr/lib/modules|^usr/lib/systemd'

fail() {
	echo "perftest: $*" >&2
	exit 1
}
is() { echo "$1  $2" | sha256sum --check --status --strict 2>/dev/null; }

# get SUM PATH: downloads a package into the cache, unless it is there.
get() {
	local mirror new
	is "$1" "$cache/$1.deb" && return
	new=$(mktemp "$cache/.download-XXXXXX")
	for mirror in $mirrors; do
		curl --fail --silent --show-error --location --retry 2 --max-time 300 --max-filesize 67108864 \
			--output "$new" "${mirror%/}/$2" || continue
		if is "$1" "$new"; then
			mv "$new" "$cache/$1.deb" # whole at once: another process may do the same
			return
		fi
		echo "perftest: download ${mirror%/}/$2: the checksum is not $1" >&2
	done
	rm "$new"
	return 1
}

grep -q "^$arch " "$list" || fail "unpack perftest for $arch: $list has no packages for it"
mkdir -p "$cache" "$root"
grep "^$arch " "$list" | while read -r _ name version sum path _; do
	get "$sum" "$path" || fail "get $name $version for $arch: no mirror has it: set DRA_RDMA_DEBIAN_MIRROR"
	dpkg-deb --extract "$cache/$sum.deb" "$root"
done
(cd "$root" && find . ! -type d -printf '%P\n' | sed -E "\\#$unwanted#b; \\#$wanted#d" |
	xargs --no-run-if-empty -d '\n' rm)
find "$root" -type d -empty -delete
mkdir -p "$root/bin" "$root/usr/bin"
# The programs of BusyBox that internal/inspect/traffic runs in the image, beside the shell's own.
for applet in sh cat grep sed sleep timeout; do
	ln -s /bin/busybox "$root/bin/$applet"
	ln -s /bin/busybox "$root/usr/bin/$applet"
done
