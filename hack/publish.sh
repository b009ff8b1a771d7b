#!/bin/sh
# Publishes the files of dist/ as the release of a tag: the images, the chart and a release page with all files. cosign
# signs them in the name of the workflow, without a key. `make publish` calls it in the release workflow.
#
#   hack/publish.sh VERSION DIRECTORY
#
# It needs oras, cosign, helm and gh. REGISTRY_USER and REGISTRY_TOKEN log in to the registry.
set -eu
"$(dirname "$0")/version.sh" "$1"
version=$1
cd "$2"
registry=${REGISTRY:-ghcr.io/rdma-dev}

fail() {
	echo "publish: $*" >&2
	exit 1
}
case $version in
v[0-9]*-[0-9]*-g* | *-dirty) fail "$version is not a tag: publish from the tagged commit" ;;
v[0-9]*.[0-9]*.[0-9]*) ;;
*) fail "$version is not a version such as v1.2.3" ;;
esac
sha256sum --check --quiet SHA256SUMS
for file in ./* ./.[!.]*; do
	case ${file#./} in
	SHA256SUMS | SHA256SUMS.sigstore.json | '.[!.]*') continue ;;
	esac
	[ "$(awk -v name="${file#./}" 'substr($0, 67) == name { n++ } END { print n + 0 }' SHA256SUMS)" = 1 ] ||
		fail "$file has no checksum in SHA256SUMS, so make dist did not make it"
done
set -- dra-driver-rdma_*.oci.tar
layout=$1
set -- rdma-perftest_*.oci.tar
perftest=$1
set -- dra-driver-rdma-*.tgz
chart=$1
[ -f "$layout" ] && [ -f "$perftest" ] && [ -f "$chart" ] || fail "no image or no chart in $PWD: run make dist"
# A release is never changed. A run that ended halfway may run again: the bytes are the same.
if gh release view "$version" >/dev/null 2>&1; then
	fail "the release $version exists"
fi

if [ "${REGISTRY_TOKEN:-}" ]; then
	printf %s "$REGISTRY_TOKEN" | oras login --username "$REGISTRY_USER" --password-stdin "${registry%%/*}"
fi
# push LAYOUT IMAGE: pushes an image, signs it, and sets digest.
push() {
	oras cp --recursive --from-oci-layout "$1:$version" "$2:$version"
	digest=$(oras resolve "$2:$version")
	case ${digest#sha256:} in
	"$digest" | '' | *[!0-9a-f]*) fail "the registry has \"$digest\" for the image $2, which is no digest" ;;
	esac
	cosign sign --yes --recursive "$2@$digest"
}
push "$perftest" "$registry/rdma-perftest"
perftest_digest=$digest
image=$registry/dra-driver-rdma
push "$layout" "$image"

helm push "$chart" "oci://$registry/charts"
charts=$registry/charts/dra-driver-rdma
cosign sign --yes "$charts@$(oras resolve "$charts:${version#v}")"

cosign sign-blob --yes --bundle SHA256SUMS.sigstore.json SHA256SUMS
case $version in
*-*) kind=--prerelease ;;
*) kind=--latest ;;
esac
gh release create "$version" --verify-tag "$kind" --title "$version" --generate-notes \
	--notes "Image: \`$image:$version@$digest\`" ./*
if [ "${GITHUB_OUTPUT:-}" ]; then
	echo "image-digest=$digest" >>"$GITHUB_OUTPUT"
	echo "perftest-digest=$perftest_digest" >>"$GITHUB_OUTPUT"
fi
