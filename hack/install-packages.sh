#!/bin/sh
# Installs the distribution's packages that the build and the embedded cluster need,
# and nothing that is there already. Debian 12 and 13, Ubuntu 22.04 and 24.04.
#
#   hack/install-packages.sh            install what is missing
#   hack/install-packages.sh --check    only say what is missing; exit status 1 if anything is
set -eu

# What each one is for:
#   gcc libc6-dev pkg-config libseccomp-dev   runc is linked statically with libseccomp
#   busybox-static                            the test image
#   iproute2                                  for looking at the cluster's network by hand
#   ca-certificates git make                  fetching modules, the Makefile
#   rpm groff-base                            looking into the packages that are built
#   prometheus                                promtool for the alerts, and a server for the dashboard
#   hugo                                      the documentation as a web site
#   chromium fonts-dejavu-core                the driver's status page as a browser shows it. Ubuntu has it as
#                                             a snap only: there the test takes google-chrome, if it is installed
#   qemu-system-x86 debootstrap debian-archive-keyring e2fsprogs xz-utils
#                                             the virtual machine with a real RDMA kernel
packages="gcc libc6-dev pkg-config libseccomp-dev busybox-static iproute2 ca-certificates git make rpm groff-base prometheus hugo
	qemu-system-x86 debootstrap debian-archive-keyring e2fsprogs xz-utils"
if [ "$(. /etc/os-release && echo "$ID")" = debian ]; then
	packages="$packages chromium fonts-dejavu-core"
fi

if ! command -v dpkg-query >/dev/null 2>&1; then
	echo "install-packages: no dpkg here: install the equivalents of: $packages" >&2
	exit 1
fi

installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=
for package in $packages; do
	installed "$package" || missing="$missing $package"
done
if [ -z "$missing" ]; then
	exit 0
fi
if [ "${1:-}" = --check ]; then
	echo "missing packages:$missing" >&2
	exit 1
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
	as_root=sudo
fi
echo "install-packages: installing$missing" >&2
# No service starts for the sake of tests: Prometheus has one.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
	$as_root chmod 755 "$policy"
	trap '$as_root rm -f "$policy"' EXIT
fi
install() {
	# The names are separate words on purpose.
	# shellcheck disable=SC2086
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
}
# A fresh machine has no package lists yet, an old one stale ones.
install || { $as_root apt-get update && install; }
