#!/bin/sh
# After a removal. dpkg passes "remove" or "purge", rpm the number 0. An upgrade passes something else.
set -e
case "$1" in
remove | purge | 0) ;;
*) exit 0 ;;
esac
# A link to a unit that is gone, where preremove.sh found no systemctl.
for unit in cdi-gen.service cdi-gen-watch.service; do
	for link in /etc/systemd/system/*.wants/"$unit"; do
		if [ -L "$link" ] && [ ! -e "$link" ]; then
			rm -f "$link"
		fi
	done
done
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
