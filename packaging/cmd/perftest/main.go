// Perftest writes the files of the image with which kubectl rdma test measures, but for the plugin itself, into a new
// directory. tools/image makes the image; make perftest-image does both.
//
//	go -C packaging run ./cmd/perftest --arch arm64 --out "$PWD/bin/perftest"
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"

	"github.com/rdma-dev/dra-driver-rdma/packaging/perftest"
)

func main() {
	arch := flag.String("arch", runtime.GOARCH, "architecture")
	out := flag.String("out", "", "directory to make, or to make new")
	flag.Parse()
	if err := run(*arch, *out); err != nil {
		fmt.Fprintln(os.Stderr, "perftest:", err)
		os.Exit(1)
	}
}

func run(arch, out string) error {
	if out == "" {
		return fmt.Errorf("write the files of perftest: name a directory by --out")
	}
	source, err := perftest.DefaultSource()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return fmt.Errorf("remove the earlier files of perftest: %w", err)
	}
	return perftest.Unpack(context.Background(), source, arch, out)
}
