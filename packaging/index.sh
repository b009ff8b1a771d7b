#!/bin/bash
# Makes one OCI image layout of the images of several architectures, to be pushed:
#
#   packaging/index.sh NAME:TAG LAYOUT.tar NAME.image.tar...
#
# packaging/image.sh makes the images. NAME.cdx.json beside an image is its bill of materials, and refers to the image.
set -euo pipefail
export LC_ALL=C
umask 022
ref=$1 archive=$2
shift 2
work=$(mktemp -d "$(realpath "$(dirname "$archive")")/.index-XXXXXX")
trap 'rm -rf "$work"' EXIT
blobs=$work/layout/blobs/sha256
mkdir -p "$blobs"
images=() manifests=()

# blob FILE TYPE: copies a file to the blobs, and prints its descriptor.
blob() {
	local sum
	sum=$(sha256sum "$1" | cut -d ' ' -f 1)
	cp "$1" "$blobs/$sum"
	jq -cn --arg type "$2" --arg digest "sha256:$sum" --argjson size "$(stat -c %s "$1")" \
		'{mediaType: $type, digest: $digest, size: $size}'
}
oci=application/vnd.oci sbom=application/vnd.cyclonedx+json
# manifest CONFIG LAYER FILTER [ARG...]: adds a manifest of two blobs, changed by a filter of jq, and prints its
# descriptor.
manifest() {
	jq -cn --arg type $oci.image.manifest.v1+json --argjson config "$1" --argjson layer "$2" "${@:4}" \
		"{schemaVersion: 2, mediaType: \$type, config: \$config, layers: [\$layer]} $3" >"$work/manifest"
	blob "$work/manifest" $oci.image.manifest.v1+json
}

printf '{}' >"$work/empty"
for image in "$@"; do
	tar -C "$work" -xf "$image"
	config=$work/$(jq -r '.[0].Config' "$work/manifest.json")
	layer=$work/$(jq -r '.[0].Layers[0]' "$work/manifest.json")
	labels=$(jq -c .config.Labels "$config")
	of=$(manifest "$(blob "$config" $oci.image.config.v1+json)" "$(blob "$layer" $oci.image.layer.v1.tar+gzip)" '')
	images+=("$(jq -c --argjson of "$of" '$of + {platform: {os, architecture}}' "$config")")
	bill=${image%.image.tar}.cdx.json
	[ ! -e "$bill" ] || manifests+=("$(manifest "$(blob "$work/empty" $sbom)" "$(blob "$bill" $sbom)" \
		'+ {subject: $subject}' --argjson subject "$of")")
done
jq -cn --arg type $oci.image.index.v1+json --argjson labels "$labels" \
	'{schemaVersion: 2, mediaType: $type, manifests: $ARGS.positional, annotations: $labels}' \
	--jsonargs "${images[@]}" >"$work/index"
index=$(blob "$work/index" $oci.image.index.v1+json)
jq -cn --arg name "$ref" --arg type $oci.image.index.v1+json --argjson index "$index" '
	{schemaVersion: 2, mediaType: $type, manifests: [$index + {annotations: {
		"org.opencontainers.image.ref.name": ($name | split(":")[-1]), "io.containerd.image.name": $name
	}}, $ARGS.positional[]]}' --jsonargs "${manifests[@]}" >"$work/layout/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$work/layout/oci-layout"
tar -C "$work/layout" --format=gnu --sort=name --owner=root:0 --group=root:0 --mode=u=rwX,go=rX \
	--mtime="@${SOURCE_DATE_EPOCH:-0}" -cf "$work/layout.tar" blobs index.json oci-layout
mv "$work/layout.tar" "$archive"
