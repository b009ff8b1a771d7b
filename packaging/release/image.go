package release

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

const (
	// driver is the name of the image and of its chart.
	driver = "dra-driver-rdma"
	// repository is where releases of the image are.
	repository = "ghcr.io/rdma-dev/" + driver
)

// deployment makes what a cluster needs: images, chart and manifests.
func (r *run) deployment(ctx context.Context) ([]string, error) {
	if len(r.Images) == 0 {
		return nil, nil
	}
	chart, err := r.chart() // first: it knows whether the version is the checkout's
	if err != nil {
		return nil, err
	}
	images, err := r.images(ctx)
	return append(chart, images...), err
}

// images makes the container image of the driver: for each architecture an archive that
// docker load and its like read, with its bill of materials, and an OCI image layout with
// all of them, to be pushed.
func (r *run) images(ctx context.Context) ([]string, error) {
	var names, platforms []string
	top := driver + "_" + r.version
	for _, arch := range r.Images {
		dir, err := r.buildImagePrograms(ctx, arch)
		if err != nil {
			return nil, err
		}
		artifact := top + "_linux_" + arch
		sbom, err := r.sbom(ctx, artifact, filepath.Join(dir, "dra-driver"), filepath.Join(dir, "rdma-hook"))
		if err != nil {
			return nil, err
		}
		names = append(names, sbom, artifact+".image.tar")
		platforms = append(platforms, "linux/"+arch)
	}
	r.progress("making images")
	work, err := filepath.Abs(r.work)
	if err != nil {
		return nil, err
	}
	env := []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.Date.Unix(), 10), "GOFLAGS=", "GOOS=" + runtime.GOOS, "GOARCH=" + runtime.GOARCH}
	_, err = command(ctx, r.Source, env, "go", "run", "./tools/image",
		"--tag", repository+":"+r.Version, "--platform", strings.Join(platforms, ","),
		"--output", filepath.Join(work, top+"_linux_{arch}.image.tar"), "--index", filepath.Join(work, top+".oci.tar"),
		"--sbom", filepath.Join(work, top+"_linux_{arch}.cdx.json"),
		"--binary", filepath.Join(work, "image-{arch}", "dra-driver"), "--binary", filepath.Join(work, "image-{arch}", "rdma-hook"))
	if err != nil {
		return nil, fmt.Errorf("make images: %w", err)
	}
	return append(names, top+".oci.tar"), nil
}

// buildImagePrograms links what is in the image and returns the directory.
func (r *run) buildImagePrograms(ctx context.Context, arch string) (string, error) {
	if !slices.Contains(Arches, arch) {
		return "", fmt.Errorf("make an image for architecture %q: want %s", arch, strings.Join(Arches, " or "))
	}
	dir, err := filepath.Abs(filepath.Join(r.work, "image-"+arch))
	if err != nil {
		return "", err
	}
	r.progress("building the driver for %s", arch)
	if _, err := command(ctx, r.Source, buildEnv("linux", arch), "go", r.buildArgs(dir+"/", "./cmd/dra-driver", "./cmd/rdma-hook")...); err != nil {
		return "", fmt.Errorf("build the driver for %s: %w", arch, err)
	}
	return dir, nil
}
