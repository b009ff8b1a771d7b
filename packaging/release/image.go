package release

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/packaging/perftest"
)

const (
	// driver is the name of the image and of its chart.
	driver = "dra-driver-rdma"
	// measuring is the name of the image with which the kubectl plugin measures. internal/inspect/traffic names it, too.
	measuring = "rdma-perftest"
	// home is where releases of the images are.
	home = "ghcr.io/rdma-dev/"
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

// imageFiles are the names of an image's files, and what tools/image makes them from.
type imageFiles struct {
	name string
	made []string // bills of materials and archives
	args []string // of tools/image
}

// images makes the container images: for each architecture an archive that docker load and its like read, with its bill
// of materials, and an OCI image layout with all of them, to be pushed.
func (r *run) images(ctx context.Context) ([]string, error) {
	work, err := filepath.Abs(r.work)
	if err != nil {
		return nil, err
	}
	of, err := r.driverImage(ctx, work)
	if err != nil {
		return nil, err
	}
	names, err := r.image(ctx, work, of)
	if err != nil {
		return nil, err
	}
	if of, err = r.measuringImage(ctx, work); err != nil {
		return nil, err
	}
	more, err := r.image(ctx, work, of)
	return append(names, more...), err
}

// driverImage builds what is in the driver's image.
func (r *run) driverImage(ctx context.Context, work string) (imageFiles, error) {
	out := imageFiles{name: driver, args: []string{
		"--binary", filepath.Join(work, "image-{arch}", "dra-driver"),
		"--binary", filepath.Join(work, "image-{arch}", "rdma-hook"),
	}}
	for _, arch := range r.Images {
		dir, err := r.buildImagePrograms(ctx, arch)
		if err != nil {
			return out, err
		}
		sbom, err := r.sbom(ctx, r.artifact(driver, arch), filepath.Join(dir, "dra-driver"), filepath.Join(dir, "rdma-hook"))
		if err != nil {
			return out, err
		}
		out.made = append(out.made, sbom)
	}
	return out, nil
}

// measuringImage builds what is in the image of kubectl rdma test: the plugin, for CronJobs, and perftest of Debian.
func (r *run) measuringImage(ctx context.Context, work string) (imageFiles, error) {
	out := imageFiles{name: measuring, args: []string{
		"--binary", filepath.Join(work, "plugin-linux-{arch}", plugin), "--tree", filepath.Join(work, measuring+"-{arch}"),
		"--description", "kubectl rdma with perftest, for tests of RDMA devices by traffic",
		"--licenses", "Apache-2.0 AND LicenseRef-debian", // the bill of materials has those of Debian's packages
	}}
	source, err := perftest.DefaultSource()
	if err != nil {
		return out, err
	}
	for _, arch := range r.Images {
		bin, err := r.buildPlugin(ctx, Platform("linux/"+arch))
		if err != nil {
			return out, err
		}
		r.progress("unpacking perftest for %s", arch)
		if err := perftest.Unpack(ctx, source, arch, filepath.Join(work, measuring+"-"+arch)); err != nil {
			return out, err
		}
		sbom, err := r.sbomWith(ctx, r.artifact(measuring, arch), perftest.Packages(arch), bin)
		if err != nil {
			return out, err
		}
		out.made = append(out.made, sbom)
	}
	return out, nil
}

func (r *run) artifact(image, arch string) string { return image + "_" + r.version + "_linux_" + arch }

// image runs tools/image.
func (r *run) image(ctx context.Context, work string, of imageFiles) ([]string, error) {
	r.progress("making images %s", of.name)
	var platforms []string
	for _, arch := range r.Images {
		platforms = append(platforms, "linux/"+arch)
		of.made = append(of.made, r.artifact(of.name, arch)+".image.tar")
	}
	index := of.name + "_" + r.version + ".oci.tar"
	env := []string{
		"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.Date.Unix(), 10), "GOFLAGS=" + compileFlags,
		"GOOS=" + runtime.GOOS, "GOARCH=" + runtime.GOARCH,
	}
	_, err := command(ctx, r.Source, env, "go", append([]string{
		"run", "./tools/image", "--tag", home + of.name + ":" + r.Version, "--platform", strings.Join(platforms, ","),
		"--output", filepath.Join(work, r.artifact(of.name, "{arch}")+".image.tar"), "--index", filepath.Join(work, index),
		"--sbom", filepath.Join(work, r.artifact(of.name, "{arch}")+".cdx.json"),
	}, of.args...)...)
	if err != nil {
		return nil, fmt.Errorf("make images %s: %w", of.name, err)
	}
	return append(of.made, index), nil
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
