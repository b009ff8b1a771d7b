#!/bin/bash
# Makes a container image of Go programs, without a container engine:
#
#   packaging/image.sh NAME:TAG ARCHIVE PROGRAM...
#
# docker load, podman load, ctr images import and skopeo read the archive. The image has no distribution: /usr/bin has
# the programs, and /etc names root and the user that containers have unless a pod says otherwise. The first program is
# the entrypoint. TREE names a directory with more files; DESCRIPTION and LICENSES are for the labels.
# The same programs give the same bytes. SOURCE_DATE_EPOCH (seconds) is the date of all files.
set -euo pipefail
export LC_ALL=C
umask 022

fail() {
	echo "image: $*" >&2
	exit 1
}
[ $# -ge 3 ] || fail 'want NAME:TAG ARCHIVE PROGRAM...'
ref=$1 archive=$2
shift 2
[[ $ref =~ ^[a-z0-9./:_-]+:[A-Za-z0-9_][A-Za-z0-9._-]*$ ]] || fail "the name $ref is not of the form NAME:TAG"
epoch=${SOURCE_DATE_EPOCH:-0}
date=$(date -u -d "@$epoch" +%FT%TZ) || fail "SOURCE_DATE_EPOCH=$epoch: want seconds since 1970"

work=$(mktemp -d "$(realpath "$(dirname "$archive")")/.image-XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root/etc" "$root/usr/bin"
[ -z "${TREE:-}" ] || cp -R "$TREE/." "$root"
arch=
for program in "$@"; do
	built=$(go version -m "$program" | sed -n 's/^\tbuild\t//p')
	[[ $built == *GOOS=linux* ]] || fail "$program is no Go program for Linux"
	[[ $built == *CGO_ENABLED=0* ]] || fail "$program would miss its libraries: build it with CGO_ENABLED=0"
	of=$(sed -n 's/^GOARCH=//p' <<<"$built")
	[ "${arch:=$of}" = "$of" ] || fail "$program is built for $of, and $1 for $arch"
	install -t "$root/usr/bin" "$program"
done
rm -f "$root/etc/passwd" "$root/etc/group" # TREE may have links there
cat >"$root/etc/passwd" <<'END'
root:x:0:0:root:/:/sbin/nologin
nonroot:x:65532:65532:nonroot:/:/sbin/nologin
END
cat >"$root/etc/group" <<'END'
root:x:0:
nonroot:x:65532:
END

# pack DIRECTORY: makes DIRECTORY.tar of the files in it. Of modes, only the right to execute counts.
pack() {
	(cd "$1" && tar --format=gnu --sort=name --owner=root:0 --group=root:0 --mode=u=rwX,go=rX --mtime="@$epoch" \
		-cf "$1.tar" -- *)
}
sum() { sha256sum "$1" | cut -d ' ' -f 1; }
pack "$root"
content=$(sum "$root.tar")
gzip -n "$root.tar"
layer=$(sum "$root.tar.gz").tar.gz
mkdir "$work/image"
mv "$root.tar.gz" "$work/image/$layer"

title=${ref%:*}
cat >"$work/config.json" <<END
{
  "os": "linux",
  "architecture": "$arch",
  "created": "$date",
  "config": {
    "User": "65532:65532",
    "Env": ["PATH=/usr/bin"],
    "Entrypoint": ["/usr/bin/${1##*/}"],
    "WorkingDir": "/",
    "Labels": {
      "org.opencontainers.image.title": "${title##*/}",
      "org.opencontainers.image.description": "${DESCRIPTION:-Kubernetes DRA node driver for RDMA devices}",
      "org.opencontainers.image.source": "https://github.com/rdma-dev/dra-driver-rdma",
      "org.opencontainers.image.licenses": "${LICENSES:-Apache-2.0}",
      "org.opencontainers.image.version": "${ref##*:}",
      "org.opencontainers.image.created": "$date"
    }
  },
  "rootfs": {"type": "layers", "diff_ids": ["sha256:$content"]},
  "history": [{"created": "$date", "created_by": "packaging/image.sh"}]
}
END
config=$(sum "$work/config.json").json
mv "$work/config.json" "$work/image/$config"
cat >"$work/image/manifest.json" <<END
[{"Config": "$config", "RepoTags": ["$ref"], "Layers": ["$layer"]}]
END
pack "$work/image"
cmp -s "$work/image.tar" "$archive" || mv -f "$work/image.tar" "$archive" # who reads it may go on
