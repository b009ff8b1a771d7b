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
# Without the hook, no container starts with a device of these specs. Exit code 3: there is none.
if [ -x /usr/bin/cdi-gen ]; then
	/usr/bin/cdi-gen remove --all || [ $? -eq 3 ]
fi
