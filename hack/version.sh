#!/bin/sh
# Prints the version of this checkout, as git describe has it, "devel" without git. With arguments, it fails for each one
# that is no version.
#
# `git fetch` brings along the tags of a fork, and a tag may hold $(...), quotes and semicolons. A version reaches
# shells, flags of the linker and names of files and images. So it has only the characters below.
set -eu
export LC_ALL=C
allowed='0-9A-Za-z.+~_-'

is_version() {
	case $1 in
	'' | -* | *[!$allowed]*) return 1 ;;
	esac
}
for version in "$@"; do
	if ! is_version "$version"; then
		printf 'version: "%s" is no version: it may have only letters, digits and . + ~ _ -\n' \
			"$(printf %s "$version" | tr -c "$allowed" '?')" >&2
		exit 1
	fi
done
[ $# -eq 0 ] || exit 0

cd "$(dirname "$0")/.."
version=$(git describe --tags --always --dirty 2>/dev/null || echo devel)
if ! is_version "$version"; then
	echo 'version: the nearest tag is no version, and is passed over: git tag --points-at HEAD shows it' >&2
	version=$(git describe --tags --always --dirty --exclude "*[!$allowed]*" --exclude '-*' 2>/dev/null || echo devel)
fi
is_version "$version" || version=devel
echo "$version"
