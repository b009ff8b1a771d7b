// Image builds the driver's container image from static binaries, without a
// container engine:
//
//	go run ./tools/image --tag ghcr.io/rdma-dev/dra-driver-rdma:v1.0.0 \
//	    --output bin/image.tar --binary bin/dra-driver --binary bin/rdma-hook
//
// The output is a docker-archive, which `ctr images import`, `podman load`,
// `docker load`, `skopeo copy docker-archive:...` and `crane push` read. There is
// no distribution in the image: it holds the binaries in /usr/bin and the two
// account files that name root. The same binaries give the same bytes, whoever
// builds them and whenever; SOURCE_DATE_EPOCH (seconds) sets the image's date.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/atomicfile"
)

func main() {
	if err := run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string, env func(string) string, stdout, stderr io.Writer) error {
	var tag, output, platform string
	var binaries []string
	cmd := &cobra.Command{
		Use:           "image --tag REF --output FILE --binary FILE [--binary FILE ...]",
		Short:         "Build a container image from static binaries, without a container engine",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			created, err := sourceDate(env("SOURCE_DATE_EPOCH"))
			if err != nil {
				return err
			}
			return build(cmd.OutOrStdout(), tag, output, platform, binaries, created)
		},
	}
	f := cmd.Flags()
	f.StringVar(&tag, "tag", "", "name of the image: REPOSITORY:TAG")
	f.StringVar(&output, "output", "", "docker-archive to write")
	f.StringVar(&platform, "platform", "linux/"+runtime.GOARCH, "platform of the binaries")
	f.StringArrayVar(&binaries, "binary", nil, "static binary to put into /usr/bin; the first one is the entrypoint")
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

// build writes the archive and says what is in it.
func build(out io.Writer, tag, output, platform string, binaries []string, created time.Time) error {
	ref, err := name.NewTag(tag, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("read --tag %q: %w", tag, err)
	}
	on, err := v1.ParsePlatform(platform)
	if err != nil {
		return fmt.Errorf("read --platform %q: %w", platform, err)
	}
	spec := spec{ref: ref, platform: *on, created: created}
	for _, path := range binaries {
		b, err := readBinary(path, *on)
		if err != nil {
			return err
		}
		spec.binaries = append(spec.binaries, b)
	}
	img, err := spec.image()
	if err != nil {
		return fmt.Errorf("build image %s: %w", ref, err)
	}
	var archive bytes.Buffer
	if err := tarball.Write(ref, img, &archive); err != nil {
		return fmt.Errorf("archive image %s: %w", ref, err)
	}
	if _, err := atomicfile.Write(output, archive.Bytes(), atomicfile.Options{Mode: 0o644}); err != nil {
		return err
	}
	id, err := img.ConfigName()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %s %s, %d KiB, image ID %s\n", output, ref, on, archive.Len()>>10, id)
	return err
}
