#!/bin/bash
# Makes the files of a release in a directory: packages of cdi-gen and rdma-hook, archives of the kubectl plugin, the
# driver's image and chart, bills of materials and checksums (docs/install.md, docs/dev/release.md):
#
#   packaging/dist.sh VERSION DIRECTORY
#
# VERSION is as git describe prints it. ARCHES, PLATFORMS and IMAGES choose architectures of the packages, platforms of
# the plugin and architectures of the images; "" is none. A file in DIRECTORY is either whole or as it was before.
#
# The same commit gives the same bytes: programs are linked without paths and version control data, every date is that
# of the commit or SOURCE_DATE_EPOCH, and nothing of the building host is read.
set -euo pipefail
shopt -s nullglob
export LC_ALL=C TZ=UTC0
umask 022
unset TREE DESCRIPTION LICENSES # of packaging/image.sh

fail() {
	echo "dist: $*" >&2
	exit 1
}
progress() { echo "$*" >&2; }
[ $# -eq 2 ] && [ -n "$1" ] && [ -n "$2" ] || fail 'want VERSION DIRECTORY'
mkdir -p "$2" || fail "make directory $2"
out=$(realpath "$2")
cd "$(dirname "$0")/.."
hack/version.sh "$1"
version=$1
package_version=$(packaging/package-version.sh "$version")
semver=${package_version/\~/-} # as krew and helm order versions
tagged=$(grep -xE 'v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?' <<<"$version" || :)
arches=${ARCHES-amd64 arm64} images=${IMAGES-amd64 arm64}
platforms=${PLATFORMS-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}
[ -n "$arches$platforms$images" ] || fail 'nothing to make: set one of ARCHES, PLATFORMS and IMAGES'
for arch in $arches $images; do
	[[ " amd64 arm64 " == *" $arch "* ]] || fail "no packages for the architecture \"$arch\": want amd64 or arm64"
done
for platform in $platforms; do
	[[ $platform =~ ^(linux|darwin)/(amd64|arm64)$ ]] ||
		fail "no plugin for the platform \"$platform\": want linux or darwin, / and amd64 or arm64"
done
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} ||
	fail 'find the date of the last commit: set SOURCE_DATE_EPOCH outside of a git checkout'
[[ $SOURCE_DATE_EPOCH =~ ^[0-9]+$ ]] || fail "SOURCE_DATE_EPOCH \"$SOURCE_DATE_EPOCH\": want seconds since 1970"
export SOURCE_DATE_EPOCH
date=$(date -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)
homepage=https://github.com/rdma-dev/dra-driver-rdma
registry=ghcr.io/rdma-dev

work=$(mktemp -d "$out/.dist-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
dist=$work/dist
mkdir "$dist"

# What would change a program is set here, whatever the environment says. hack/env.sh has the same flags.
export CGO_ENABLED=0 GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT='' GOWORK=off GOFLAGS='-trimpath -gcflags=all=-dwarf=false'
host=$(go env GOHOSTARCH)
progress 'building the tools'
mkdir "$work/tools"
for tool in manpages nfpm cyclonedx-gomod; do # Go's cache keeps them, as it keeps no other program
	path=$(GOOS='' GOARCH='' go -C packaging tool -n "$tool")
	ln -s "$path" "$work/tools/"
done

# build OS ARCH PROGRAM...: links programs into $work/OS-ARCH, each once, and describes their modules beside it.
build() {
	local os=$1 arch=$2 dir=$work/$1-$2 program
	# grpcnotrace: the Makefile says why.
	local flags="-s -w -X github.com/rdma-dev/dra-driver-rdma/internal/base/version.Version=$version"
	flags+=" -X main.version=$version"
	for program in "${@:3}"; do
		[ ! -e "$dir/$program" ] || continue
		progress "building $program for $os/$arch"
		GOOS=$os GOARCH=$arch go build -tags grpcnotrace -buildvcs=false -ldflags "$flags" -o "$dir/" "./cmd/$program"
		"$work/tools/cyclonedx-gomod" bin -json -noserial -notimestamp -std -version "$version" \
			-output "$dir/$program.modules" "$dir/$program" 2>"$work/log" ||
			fail "list the modules of $program: $(cat "$work/log")"
	done
}

# archive FILE DIRECTORY TOP: makes a tar.gz of a directory; TOP is in front of the names.
archive() {
	(cd "$2" && find . -type f -printf '%P\0' | sort -z |
		tar --null --no-recursion --format=gnu --owner=root:0 --group=root:0 --mode=u=rwX,go=rX \
			--mtime="@$SOURCE_DATE_EPOCH" --transform "s,^,$3," -cf "$work/archive.tar" -T -)
	gzip -9n <"$work/archive.tar" >"$1"
}

# licenses finds the license of each module. $work/licenses has a line for each, $work/texts the texts.
licenses() {
	local module dir ids files
	mkdir "$work/texts"
	jq -r '.components[].name | select(. != "std")' "$work"/*/*.modules | sort -u |
		xargs go list -m -f '{{.Path}} {{.Dir}}' >"$work/dirs"
	echo "std $(go env GOROOT)" >>"$work/dirs"
	while read -r module dir; do
		mapfile -t files < <(find "$dir" -maxdepth 1 -type f -regextype posix-extended \
			-iregex '.*/(licen[cs]e|copying|notice)([-.][^/]*)?' | sort)
		ids=$([ ${#files[@]} = 0 ] || packaging/license.sh "${files[@]}")
		[ -n "$ids" ] || fail "find the license of $module in $dir: no file has a license that packaging/license.sh" \
			"knows; add its phrase there"
		cat "${files[@]}" >"$work/texts/${module//\//+}"
		echo "$module $ids"
	done <"$work/dirs" | sort >"$work/licenses"
}

# licensed LIST...: prints the modules in lists of cyclonedx-gomod, each with its license.
licensed() { jq -r '.components[].name' "$@" | sort -u | join - "$work/licenses"; }

# sbom ARTIFACT PACKAGES PROGRAM...: writes a bill of materials of programs and packages of Debian.
sbom() {
	jq -s --arg artifact "$1" --arg version "$version" --arg date "$date" --arg packages "$2" \
		--argjson licenses "$(jq -Rn '[inputs | capture("^(?<key>\\S+) (?<value>.*)")] | from_entries' "$work/licenses")" \
		-f packaging/sbom.jq "${@:3}" >"$dist/$1.cdx.json"
}

# common writes the files that all packages of cdi-gen have, in $work/common.
common() {
	local bin=$work/linux-$host root=$work/common site=$homepage/blob/${tagged:-main}/ document
	local share=$root/usr/share
	mkdir -p "$share/doc/cdi-gen" "$share/bash-completion/completions" "$share/fish/vendor_completions.d"
	"$work/tools/manpages" --out "$share/man" --package "cdi-gen $package_version" \
		"$bin/cdi-gen:1:write CDI specs for the RDMA devices of this host" \
		"$bin/rdma-hook:8:raise the locked memory limit of a container"
	gzip -9n "$share"/man/*/*
	"$bin/cdi-gen" completion bash >"$share/bash-completion/completions/cdi-gen"
	"$bin/cdi-gen" completion fish >"$share/fish/vendor_completions.d/cdi-gen.fish"
	"$bin/cdi-gen" completion zsh >"$work/zsh"
	packaging/relink.sh '' "$site" <README.md >"$share/doc/cdi-gen/README.md"
	for document in docs/*.md; do
		packaging/relink.sh docs/ "$site" <"$document" >"$share/doc/cdi-gen/${document##*/}"
	done
	install -m 644 -t "$share/doc/cdi-gen" docs/*.svg docs/*.png
	install -D -m 644 -t "$root/usr/lib/systemd/system" packaging/systemd/*.{service,path,timer}
	install -D -m 644 -t "$root/usr/lib/udev/rules.d" packaging/udev/*.rules
	licensed "$bin"/{cdi-gen,rdma-hook}.modules >"$work/ours"
	third_party >"$work/third-party.txt"
}

# third_party prints the licenses and notices of the modules in the programs. Most of the licenses want them beside a
# program.
third_party() {
	local module
	printf 'The programs are linked from the Go modules below, under these licenses.\n\n'
	sed 's/ /: /' "$work/ours"
	while read -r module _; do
		printf '\n\n==== %s:\n\n' "$module"
		cat "$work/texts/${module//\//+}"
	done <"$work/ours"
}

# Debian's file in https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/.
copyright() {
	cat <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: dra-driver-rdma
Source: $homepage
Comment: The programs contain these Go modules. /usr/share/doc/cdi-gen/third-party.txt has
 their copyright notices and licenses.
$(sed 's/ /: /; s/^/ /' "$work/ours")

Files: *
Copyright: ${date%%-*} The dra-driver-rdma authors
License: Apache-2.0
 On Debian systems, /usr/share/common-licenses/Apache-2.0 has the full text.
END
}

# lay_out KIND ARCH ROOT: writes the files of a package as a host has them.
lay_out() {
	local share=$3/usr/share zsh=site-functions
	local doc=$share/doc/cdi-gen
	cp -R "$work/common" "$3"
	install -D -t "$3/usr/bin" "$work/linux-$2"/{cdi-gen,rdma-hook}
	[ "$1" = tar ] || install -D -m 644 -t "$3/etc/default" packaging/default/cdi-gen
	case $1 in
	deb)
		zsh=vendor-completions
		install -D -m 644 packaging/debian/lintian-overrides "$share/lintian/overrides/cdi-gen"
		install -m 644 -t "$doc" "$work/third-party.txt"
		copyright >"$doc/copyright"
		gzip -9n >"$doc/changelog.Debian.gz" <<END
cdi-gen ($package_version-1) unstable; urgency=medium

  * Release: $homepage/releases/tag/$version

 -- The dra-driver-rdma authors <maintainers@rdma.dev>  $(date -R -d "@$SOURCE_DATE_EPOCH")
END
		;;
	rpm) install -D -m 644 -t "$share/licenses/cdi-gen" LICENSE "$work/third-party.txt" ;;
	tar) install -m 644 -t "$doc" LICENSE "$work/third-party.txt" ;;
	esac
	install -D -m 644 "$work/zsh" "$share/zsh/$zsh/_cdi-gen"
	find "$3" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

# packages ARCH: makes the packages of cdi-gen and rdma-hook.
packages() {
	local artifact=cdi-gen_${package_version}_linux_$1 kind root name
	for kind in deb rpm; do
		root=$work/$kind-$1
		lay_out $kind "$1" "$root"
		cp packaging/nfpm.yaml "$work/nfpm.yaml"
		(cd "$root" && find usr/share/{doc,man} -type f) | sort | while read -r name; do
			echo "  - {src: \"$root/$name\", dst: \"/$name\", packager: rpm, type: doc}"
		done >>"$work/nfpm.yaml"
		ROOT=$root ARCH=$1 PACKAGE_VERSION=$package_version \
			"$work/tools/nfpm" package --config "$work/nfpm.yaml" --packager $kind --target "$dist" >&2
	done
	lay_out tar "$1" "$work/tar-$1"
	archive "$dist/$artifact.tar.gz" "$work/tar-$1/usr" "$artifact/"
	sbom "$artifact" '' "$work/linux-$1"/{cdi-gen,rdma-hook}.modules
}

# plugin PLATFORM: makes the archive of the kubectl plugin. Everything stands at its top: krew wants it so, and a user
# can unpack the archive into a directory of PATH. krew compares the checksum in the manifest.
plugin() {
	local os=${1%/*} arch=${1#*/} root=$work/plugin
	local name=kubectl-rdma_${semver}_${os}_$arch
	install -t "$root" "$work/$os-$arch/kubectl-rdma"
	archive "$dist/$name.tar.gz" "$root" ''
	sbom "$name" '' "$work/$os-$arch/kubectl-rdma.modules"
	cat >>"$dist/rdma.yaml" <<END
  - selector:
      matchLabels:
        os: $os
        arch: $arch
    uri: $homepage/releases/download/$version/$name.tar.gz
    sha256: $(sha256sum "$dist/$name.tar.gz" | cut -d ' ' -f 1)
    bin: kubectl-rdma
    files:
    - from: kubectl-rdma
      to: .
    - from: kubectl_complete-rdma
      to: .
    - from: LICENSE
      to: .
END
}

plugins() {
	local root=$work/plugin platform
	"$work/tools/manpages" --out "$root/man" --package "kubectl-rdma $package_version" --see 'kubectl(1)' \
		"$work/linux-$host/kubectl-rdma:1:show the RDMA devices of a cluster, and why a pod does not get its"
	gzip -9n "$root"/man/*/*
	install -m 644 -t "$root" LICENSE docs/kubectl-rdma.md
	install -t "$root" packaging/krew/kubectl_complete-rdma
	sed "s/VERSION/v$semver/" packaging/krew/rdma.yaml >"$dist/rdma.yaml"
	for platform in $platforms; do
		plugin "$platform"
	done
}

# chart makes the archive of the Helm chart, and the plain manifests. Both name the image of this version, which is that
# of the checkout in a release.
chart() {
	local dir=deployments/helm/dra-driver-rdma app root=$work/chart
	app=$(sed -n 's/^appVersion: //p' $dir/Chart.yaml)
	[ -z "$tagged" ] || [ "$app" = "$version" ] ||
		fail "make the chart of $version: $dir/Chart.yaml has appVersion $app: set it, run make golden and commit" \
			"both before the tag"
	cp -R $dir "$root"
	sed -i "s/^version: .*/version: $semver/; s/^appVersion: .*/appVersion: \"$version\"/" "$root/Chart.yaml"
	archive "$dist/dra-driver-rdma-$semver.tgz" "$root" dra-driver-rdma/
	sed "s/${app//./\\.}/$version/g" deployments/manifests/dra-driver-rdma.yaml >"$dist/dra-driver-rdma.yaml"
}

# image NAME PACKAGES ARCH PROGRAM...: makes the image of one architecture, with its bill of materials.
image() {
	local programs=("${@:4}")
	programs=("${programs[@]/#/$work/linux-$3/}")
	sbom "$1_${package_version}_linux_$3" "$2" "${programs[@]/%/.modules}"
	packaging/image.sh "$registry/$1:$version" "$dist/$1_${package_version}_linux_$3.image.tar" "${programs[@]}"
}

images() {
	local arch name packages
	for arch in $images; do
		image dra-driver-rdma '' "$arch" dra-driver rdma-hook
		packages=$(grep "^$arch " packaging/perftest/packages.txt)
		packaging/perftest/unpack.sh "$arch" "$work/perftest-$arch"
		# The bill of materials has the licenses of Debian's packages.
		TREE=$work/perftest-$arch LICENSES='Apache-2.0 AND LicenseRef-debian' \
			DESCRIPTION='kubectl rdma with perftest, for tests of RDMA devices by traffic' \
			image rdma-perftest "$packages" "$arch" kubectl-rdma
	done
	for name in dra-driver-rdma rdma-perftest; do
		packaging/index.sh "$registry/$name:$version" "$dist/${name}_$package_version.oci.tar" "$dist/$name"_*.image.tar
	done
}

[ -z "$images" ] || chart # first: it knows whether the version is the checkout's
[ -z "$arches" ] || build linux "$host" cdi-gen rdma-hook # the host's programs write the pages
for arch in $arches; do
	build linux "$arch" cdi-gen rdma-hook
done
for platform in ${platforms:+linux/$host} $platforms; do
	build "${platform%/*}" "${platform#*/}" kubectl-rdma
done
for arch in $images; do
	build linux "$arch" dra-driver rdma-hook kubectl-rdma
done
licenses
[ -z "$arches" ] || common
for arch in $arches; do
	packages "$arch"
done
[ -z "$platforms" ] || plugins
[ -z "$images" ] || images
(cd "$dist" && sha256sum -- * >"$work/SHA256SUMS")
mv "$dist"/* "$out"
mv "$work/SHA256SUMS" "$out"
ls "$out"
