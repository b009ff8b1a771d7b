// Command package makes the files of a release: packages of cdi-gen and rdma-hook, archives
// of the kubectl plugin, the driver's image and chart, bills of materials and checksums; see
// docs/packaging.md and docs/dev/release.md:
//
//	go -C packaging run ./cmd/package --version v1.2.3 --out "$PWD/dist"
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/packaging/release"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "package: %v\n", err)
		os.Exit(1)
	}
}

// run prints the names of the packages to stdout, and progress to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := release.Options{Log: stderr}
	f := flag.NewFlagSet("package", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.Version, "version", "", "version as git describe prints it (required)")
	f.StringVar(&o.Out, "out", "", "directory for the files (required)")
	f.StringVar(&o.Source, "source", "..", "the checkout to package")
	arches := f.String("arch", strings.Join(release.Arches, ","), "architectures")
	var every []string
	for _, p := range release.Platforms {
		every = append(every, string(p))
	}
	plugins := f.String("plugin", strings.Join(every, ","), "platforms of the kubectl plugin, none for an empty list")
	images := f.String("image", strings.Join(release.Arches, ","), "architectures of the driver's image, none for an empty list")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %q; see --help", f.Arg(0))
	}
	if o.Out == "" {
		return errors.New("no directory for the packages: give --out")
	}
	o.Arches = strings.Split(*arches, ",")
	for p := range strings.SplitSeq(*plugins, ",") {
		if p != "" {
			o.Plugins = append(o.Plugins, release.Platform(p))
		}
	}
	for arch := range strings.SplitSeq(*images, ",") {
		if arch != "" {
			o.Images = append(o.Images, arch)
		}
	}
	names, err := release.Package(ctx, o)
	for _, name := range names {
		fmt.Fprintln(stdout, name)
	}
	return err
}
