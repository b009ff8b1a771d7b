#!/bin/sh
# Unpacks the RDMA user space of Debian 12 and 13, amd64 and arm64, and a glibc that
# searches /lib64 first, each into a directory of its own. Nothing is installed, and
# the lists and the configuration of this machine's apt are left alone.
#
#   testdata/packages.sh DIR && RDMA_PACKAGES=DIR go test -v -run Packages .
set -eu
dir=$(realpath -m "$1")
mirror=${MIRROR:-http://deb.debian.org/debian}

# unpack SUITE ARCHITECTURE DIRECTORY PACKAGE...
unpack() {
	suite=$1 arch=$2 to=$dir/$3 apt=$dir/.apt-$3
	shift 3
	mkdir -p "$to" "$apt/lists/partial" "$apt/cache/archives/partial"
	: >"$apt/status"
	echo "deb [arch=$arch signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/sources.list"
	cd "$apt"
	for action in "update" "download $*"; do
		# The action is several words on purpose.
		# shellcheck disable=SC2086
		apt-get -qq -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o APT::Sandbox::User=root \
			-o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
			-o Dir::State::Lists="$apt/lists" -o Dir::State::Status="$apt/status" -o Dir::Cache="$apt/cache" \
			$action
	done
	# /usr merged, as base-files has it.
	mkdir -p "$to/usr/lib" "$to/usr/lib64"
	[ -e "$to/lib" ] || ln -s usr/lib "$to/lib"
	[ -e "$to/lib64" ] || ln -s usr/lib64 "$to/lib64"
	for package in *.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$to"
	done
}

common="libc6 libibverbs1 ibverbs-providers ibverbs-utils libnl-3-200 libnl-route-3-200"
for arch in amd64 arm64; do
	unpack bookworm $arch "bookworm-$arch" $common librdmacm1
	unpack trixie $arch "trixie-$arch" $common librdmacm1t64
done
unpack bookworm i386 lib64-amd64 libc6-amd64
