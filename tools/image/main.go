// Image builds the driver's container image from static binaries, without a
// container engine:
//
//	go run ./tools/image --tag ghcr.io/rdma-dev/dra-driver-rdma:v1.0.0 \
//	    --output bin/image.tar --binary bin/dra-driver --binary bin/rdma-hook
//
// For a release, with an index over several architectures and their bills of materials:
//
//	go run ./tools/image --tag ghcr.io/rdma-dev/dra-driver-rdma:v1.0.0 --platform linux/amd64,linux/arm64 \
//	    --output 'dist/image_{arch}.tar' --index dist/image.oci.tar --sbom 'dist/{arch}.cdx.json' --binary 'bin/{arch}/dra-driver'
//
// With --tree, the image has the files of a directory beside the binaries, such as programs with their libraries.
//
// The output is a docker-archive, which `ctr images import`, `podman load`,
// `docker load`, `skopeo copy docker-archive:...` and `crane push` read. There is
// no distribution in the image: it holds the binaries in /usr/bin and the two
// account files that name root and the user that containers have unless a pod says
// otherwise, which is not root. The same binaries give the same bytes, whoever
// builds them and whenever; SOURCE_DATE_EPOCH (seconds) sets the image's date.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
)

func main() {
	if err := run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string, env func(string) string, stdout, stderr io.Writer) error {
	var o options
	cmd := &cobra.Command{
		Use:           "image --tag REF --output FILE --binary FILE [--binary FILE ...]",
		Short:         "Build a container image from static binaries, without a container engine",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.created, err = sourceDate(env("SOURCE_DATE_EPOCH")); err != nil {
				return err
			}
			return o.build(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.tag, "tag", "", "name of the image: REPOSITORY:TAG")
	f.StringVar(&o.output, "output", "", "docker-archive to write, one for each platform")
	f.StringVar(&o.index, "index", "", "archive of an OCI image layout to write, with all platforms")
	f.StringVar(&o.sbom, "sbom", "", "bill of materials of each platform, CycloneDX in JSON, to attach to its image in the layout")
	f.StringSliceVar(&o.platforms, "platform", []string{"linux/" + runtime.GOARCH}, "platforms of the binaries")
	f.StringArrayVar(&o.binaries, "binary", nil, "static binary to put into /usr/bin; the first one is the entrypoint")
	f.StringVar(&o.tree, "tree", "", "directory with more files of the image, whose paths are those below it")
	f.StringVar(&o.description, "description", "Kubernetes DRA node driver for RDMA devices",
		"what the image is, for its label")
	f.StringVar(&o.licenses, "licenses", "Apache-2.0", "SPDX expression of the licenses, for the label")
	for _, required := range []string{"tag", "output", "binary"} {
		if err := cmd.MarkFlagRequired(required); err != nil {
			return err
		}
	}
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	return cmd.Execute()
}

// sourceDate reads https://reproducible-builds.org/specs/source-date-epoch.
func sourceDate(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read SOURCE_DATE_EPOCH: %w; want seconds since 1970", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// archPlaceholder stands in paths for the architecture.
const archPlaceholder = "{arch}"

// options are the flags.
type options struct {
	tag, output, index, sbom    string
	tree, description, licenses string
	platforms, binaries         []string
	created                     time.Time
}

// build writes the archives and says what is in them.
func (o options) build(out io.Writer) error {
	ref, err := name.NewTag(o.tag, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("read --tag %q: %w", o.tag, err)
	}
	if len(o.platforms) > 1 && !strings.Contains(o.output, archPlaceholder) {
		return fmt.Errorf("read --output %q: each of the %d platforms has an archive of its own, so the name needs %s", o.output, len(o.platforms), archPlaceholder)
	}
	var images []built
	for _, platform := range o.platforms {
		b, err := o.one(ref, platform)
		if err != nil {
			return err
		}
		images = append(images, b)
	}
	for _, b := range images {
		if err := b.write(out, strings.ReplaceAll(o.output, archPlaceholder, b.spec.platform.Architecture)); err != nil {
			return err
		}
	}
	if o.index == "" {
		return nil
	}
	digest, err := writeIndex(o.index, images)
	if err != nil {
		return fmt.Errorf("write image index of %s: %w", ref, err)
	}
	_, err = fmt.Fprintf(out, "%s: %s %s, %s\n", o.index, ref, strings.Join(o.platforms, " "), digest)
	return err
}

// one makes the image of a platform.
func (o options) one(ref name.Tag, platform string) (built, error) {
	on, err := v1.ParsePlatform(platform)
	if err != nil {
		return built{}, fmt.Errorf("read --platform %q: %w", platform, err)
	}
	b := built{spec: spec{
		ref: ref, platform: *on, created: o.created, description: o.description, licenses: o.licenses,
		tree: strings.ReplaceAll(o.tree, archPlaceholder, on.Architecture),
	}}
	for _, path := range o.binaries {
		program, err := readBinary(strings.ReplaceAll(path, archPlaceholder, on.Architecture), *on)
		if err != nil {
			return b, err
		}
		b.spec.binaries = append(b.spec.binaries, program)
	}
	if o.sbom != "" {
		if b.sbom, err = readSBOM(strings.ReplaceAll(o.sbom, archPlaceholder, on.Architecture)); err != nil {
			return b, err
		}
	}
	if b.image, err = b.spec.image(); err != nil {
		return b, fmt.Errorf("build image %s: %w", ref, err)
	}
	return b, nil
}

// write archives the image for docker load and its like.
func (b built) write(out io.Writer, output string) error {
	var archive bytes.Buffer
	if err := tarball.Write(b.spec.ref, b.image, &archive); err != nil {
		return fmt.Errorf("archive image %s: %w", b.spec.ref, err)
	}
	if _, err := atomicfile.Write(output, archive.Bytes(), atomicfile.Options{Mode: 0o644}); err != nil {
		return err
	}
	id, err := b.image.ConfigName()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %s %s, %d KiB, image ID %s\n", output, b.spec.ref, b.spec.platform, archive.Len()>>10, id)
	return err
}
