#!/bin/sh
# Installs the distribution's packages that a job needs, and nothing that is there
# already. Debian 12 and 13, Ubuntu 22.04 and 24.04.
#
#   hack/install-packages.sh            install what is missing for all jobs
#   hack/install-packages.sh demo       ... for `make demo` and the embedded cluster
#   hack/install-packages.sh test       ... for `make test`
#   hack/install-packages.sh vm         ... for the virtual machine
#   hack/install-packages.sh proof      ... for `make proof`: everything
set -eu

# Who needs it, the package, and what for. "demo" is part of "test", "test" of "vm", and all are of "proof".
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
test  iproute2                tests set up links and addresses with it
vm    qemu-system-x86         the virtual machine with a real RDMA kernel
vm    debootstrap             its root file system
vm    debian-archive-keyring  the same
vm    e2fsprogs               the same
vm    xz-utils                unpack its kernel
proof rpm                     look into the packages that are built
proof shellcheck              lint of shell scripts
proof crun                    run bundles that cdi-gen changed
proof systemd-container       the same with systemd-nspawn
proof qemu-user-static        run the programs for arm64 once
proof lintian                 check the Debian package
proof groff-base              check their manual pages
test  jq                      the script for hosts with lldpd; images and bills of materials of a release
proof curl                    packages of Debian for the image with perftest
proof prometheus              promtool for the alerts, and a server for the dashboard
'

# Node.js of other sources brings npm along, and excludes the distribution's.
if ! command -v npm >/dev/null 2>&1; then
	list="$list
proof nodejs                  the documentation as a web site
proof npm                     the same
"
fi

# Google's browser serves as well. Ubuntu has Chromium as a snap only.
if ! command -v google-chrome >/dev/null 2>&1 && ! grep -q '^ID=ubuntu' /etc/os-release; then
	list="$list
proof chromium                the page of kubectl rdma report in a browser
"
fi

case "${1:-proof}" in
demo) jobs=' demo ' ;;
test) jobs=' demo test ' ;;
vm) jobs=' demo test vm ' ;;
proof) jobs=' demo test vm proof ' ;;
*)
	echo "install-packages: no job '$1': name demo, test, vm or proof" >&2
	exit 2
	;;
esac

packages=$(echo "$list" | while read -r job package _; do
	case "$jobs" in *" $job "*) echo "$package" ;; esac
done)

if ! command -v dpkg-query >/dev/null 2>&1; then
	echo "install-packages: no dpkg here: install the equivalents of:" $packages >&2
	exit 0 # tests say what they lack
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
# Another apt is at work on every new Ubuntu. It is waited for: `install` does that itself (apt.conf(5), DPkg::Lock::Timeout),
# `update` ends at once when somebody else fetches lists.
patience=600
apt() { $as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -o DPkg::Lock::Timeout=$patience "$@"; }
install() {
	# The names are separate words on purpose.
	# shellcheck disable=SC2086
	apt install -y --no-install-recommends $missing
}
update() {
	waited=0
	until said=$(apt update 2>&1); do
		case "$said" in *"Could not get lock"*) ;; *) break ;; esac
		[ $waited -lt $patience ] || break
		[ $waited -gt 0 ] || echo "install-packages: another program fetches package lists: waiting for it, at most $patience s" >&2
		sleep 5
		waited=$((waited + 5))
	done
	echo "$said" >&2
}
echo "install-packages: if another program installs packages, apt waits for it, at most $patience s" >&2
# A fresh machine has no package lists yet, an old one stale ones.
install || { update && install; }
