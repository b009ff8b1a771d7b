#!/bin/sh
# After an installation or an upgrade. dpkg passes "configure" and the old version, rpm the number of versions.
# It enables nothing, and starts only what ran before the upgrade.
set -e
case "$1:$2" in
configure:?* | [2-9]:*) upgrade=yes ;;
*) upgrade= ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	if [ "$upgrade" ]; then
		systemctl try-restart cdi-gen-watch.service || true
		# It writes the spec and ends, so it is never running.
		if systemctl --quiet is-enabled cdi-gen.service; then
			systemctl restart --no-block cdi-gen.service || true
		fi
	fi
fi
