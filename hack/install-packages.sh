#!/bin/sh
# Installs the distribution's packages that a job needs, and nothing that is there
# already. Debian 12 and 13, Ubuntu 22.04 and 24.04.
#
#   hack/install-packages.sh            install what is missing for all jobs
#   hack/install-packages.sh demo       ... for `make demo` and the embedded cluster
#   hack/install-packages.sh vm         ... for the virtual machine
#   hack/install-packages.sh test       ... for `make test`: everything
#   hack/install-packages.sh --check [JOB]   only say what is missing; exit status 1 if anything is
set -eu

# Who needs it, the package, and what for. "demo" is part of "vm", and both are of "test".
list='
demo  ca-certificates         fetch modules
demo  git                     fetch modules, name the version
demo  make                    the Makefile
demo  gcc                     runc is linked statically with libseccomp
demo  libc6-dev               the same
demo  pkg-config              the same
demo  libseccomp-dev          the same
demo  busybox-static          the test image
vm    openssh-client          keys of the MPI job
vm    iproute2                tests set up links and addresses with it
vm    qemu-system-x86         the virtual machine with a real RDMA kernel
vm    debootstrap             its root file system
vm    debian-archive-keyring  the same
vm    e2fsprogs               the same
vm    xz-utils                unpack its kernel
test  rpm                     look into the packages that are built
test  shellcheck              lint of shell scripts
test  crun                    run bundles that cdi-gen changed
test  systemd-container       the same with systemd-nspawn
test  qemu-user-static        run the programs for arm64 once
test  lintian                 check the Debian package
test  groff-base              check their manual pages
test  jq                      the script for hosts with lldpd
test  prometheus              promtool for the alerts, and a server for the dashboard
'
distribution=$(. /etc/os-release && echo "$ID")
if [ "$distribution" = debian ]; then
	# Ubuntu has chromium as a snap only: there the test takes google-chrome, if it is installed.
	list="$list
test  chromium                the status page as a browser shows it
test  fonts-dejavu-core       the same
"
fi

# Node.js of other sources brings npm along, and excludes the distribution's.
if ! command -v npm >/dev/null 2>&1; then
	list="$list
test  nodejs                  the documentation as a web site
test  npm                     the same
"
fi

check=
if [ "${1:-}" = --check ]; then
	check=yes
	shift
fi
case "${1:-test}" in
demo) jobs=' demo ' ;;
vm) jobs=' demo vm ' ;;
test) jobs=' demo vm test ' ;;
*)
	echo "install-packages: no job '$1': name demo, vm or test" >&2
	exit 2
	;;
esac

packages=$(echo "$list" | while read -r job package _; do
	case "$jobs" in *" $job "*) echo "$package" ;; esac
done)

if ! command -v dpkg-query >/dev/null 2>&1; then
	echo "install-packages: no dpkg here: install the equivalents of:" $packages >&2
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
if [ "$check" ]; then
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
