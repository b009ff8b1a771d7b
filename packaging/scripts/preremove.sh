#!/bin/sh
# Before a removal. dpkg passes "remove", rpm the number 0. An upgrade passes something else and changes nothing.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
# The udev rule restarts an enabled service, and a running watch writes the spec again. So both end first.
if command -v systemctl >/dev/null; then
	systemctl --quiet disable cdi-gen.service cdi-gen-watch.service || true
	if [ -d /run/systemd/system ]; then
		systemctl stop cdi-gen.service cdi-gen-watch.service || true
	fi
fi
# Without the hook, no container starts with a device of these specs. cdi-gen names each file of others that it cannot
# read, and fails only for a spec of ours that stays. A file system that does not answer must not keep the package.
if [ -x /usr/bin/cdi-gen ]; then
	set -- /usr/bin/cdi-gen remove --all
	# A busybox shell knows timeout by name, and cannot run it where it is not installed.
	if timeout 5 true 2>/dev/null; then
		set -- timeout -k 5 60 "$@"
	fi
	status=0
	"$@" || status=$?
	case $status in
	0 | 3) ;; # 3: there was none
	124 | 137) echo "cdi-gen: /etc/cdi or /var/run/cdi does not answer: specs of rdma.dev/hca may stay there" >&2 ;;
	*)
		echo "cdi-gen: remove the specs that it names above, then remove the package again" >&2
		exit 1
		;;
	esac
fi
