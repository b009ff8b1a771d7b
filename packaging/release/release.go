// Package release makes all files of a release: packages of cdi-gen and rdma-hook, deb,
// rpm and tar.gz for each architecture; archives of the kubectl plugin with its manifest for
// krew; the driver's container image, its chart and plain manifests; a bill of materials of
// each; and a file of checksums.
//
// The same commit gives the same bytes, whoever builds it and wherever: binaries
// are linked without paths and version control data, every date is that of the
// commit, and nothing of the building host is read.
package release

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Name is that of the package.
const Name = "cdi-gen"

// Arches are the architectures that packages are made for, in Go's words.
var Arches = []string{"amd64", "arm64"}

// Options say what to package.
type Options struct {
	Source  string     // the checkout
	Out     string     // the directory for the packages; made if need be
	Version string     // as git describe prints it
	Arches  []string   // some of Arches; all if empty
	Plugins []Platform // those of the kubectl plugin; none if empty
	Images  []string   // architectures of the driver's image, which come with its chart; none if empty
	Date    time.Time  // of everything in the packages; Date(Source) if zero
	Log     io.Writer  // progress
}

// Package makes the packages. It returns their file names in Out. A file there is
// either whole or as it was before.
func Package(ctx context.Context, o Options) ([]string, error) {
	version, err := packageVersion(o.Version)
	if err != nil {
		return nil, err
	}
	if len(o.Arches) == 0 {
		o.Arches = Arches
	}
	for _, arch := range o.Arches {
		if !slices.Contains(Arches, arch) {
			return nil, fmt.Errorf("package for architecture %q: want %s", arch, strings.Join(Arches, " or "))
		}
	}
	for _, p := range o.Plugins {
		if !slices.Contains(Platforms, p) {
			return nil, fmt.Errorf("package the plugin for platform %q: want some of %v", p, Platforms)
		}
	}
	if o.Date.IsZero() {
		if o.Date, err = Date(ctx, o.Source); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, fmt.Errorf("make directory for packages: %w", err)
	}
	work, err := os.MkdirTemp(o.Out, ".package-")
	if err != nil {
		return nil, fmt.Errorf("make directory for packages: %w", err)
	}
	defer os.RemoveAll(work)
	r := &run{Options: o, version: version, work: work}
	return r.all(ctx)
}

// run is the making of one set of packages.
type run struct {
	Options
	version string            // of the packages
	work    string            // a directory of its own, in Out
	dirs    map[string]string // of modules, once moduleDirs has found them
}

func (r *run) all(ctx context.Context) ([]string, error) {
	common, err := r.common(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, arch := range r.Arches {
		bin, err := r.build(ctx, arch)
		if err != nil {
			return nil, err
		}
		for _, pack := range []func(string, []file) (string, error){r.deb, r.rpm, r.tar} {
			name, err := pack(arch, append(programs(bin), common...))
			if err != nil {
				return nil, err
			}
			names = append(names, name)
		}
		artifact := fmt.Sprintf("%s_%s_linux_%s", Name, r.version, arch)
		sbom, err := r.sbom(ctx, artifact, filepath.Join(bin, "cdi-gen"), filepath.Join(bin, "rdma-hook"))
		if err != nil {
			return nil, err
		}
		names = append(names, sbom)
	}
	for _, more := range []func(context.Context) ([]string, error){r.plugins, r.deployment} {
		made, err := more(ctx)
		if err != nil {
			return nil, err
		}
		names = append(names, made...)
	}
	sums, err := r.checksums(names)
	if err != nil {
		return nil, err
	}
	names = append(names, sums)
	return names, r.publish(names)
}

// common returns the files that are the same for every architecture. Some are made
// by the program itself, so it is built for this host first.
func (r *run) common(ctx context.Context) ([]file, error) {
	bin, err := r.build(ctx, runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	pages, err := r.manPages(ctx, bin)
	if err != nil {
		return nil, err
	}
	completions, err := r.completions(ctx, bin)
	if err != nil {
		return nil, err
	}
	texts, err := r.texts()
	if err != nil {
		return nil, err
	}
	documents, err := r.documents()
	if err != nil {
		return nil, err
	}
	legal, err := r.legal(ctx, bin)
	return slices.Concat(pages, completions, texts, documents, legal), err
}

// publish moves finished files to where they were asked for, the checksums last.
func (r *run) publish(names []string) error {
	for _, name := range names {
		if err := os.Rename(filepath.Join(r.work, name), filepath.Join(r.Out, name)); err != nil {
			return fmt.Errorf("move finished package: %w", err)
		}
		r.progress("%s", filepath.Join(r.Out, name))
	}
	return nil
}

// checksums writes the file that sha256sum --check reads.
func (r *run) checksums(names []string) (string, error) {
	var b strings.Builder
	for _, name := range slices.Sorted(slices.Values(names)) {
		data, err := os.ReadFile(filepath.Join(r.work, name))
		if err != nil {
			return "", fmt.Errorf("read package for its checksum: %w", err)
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), name)
	}
	const name = "SHA256SUMS"
	if err := os.WriteFile(filepath.Join(r.work, name), []byte(b.String()), 0o644); err != nil {
		return "", fmt.Errorf("write checksums: %w", err)
	}
	return name, nil
}

func (r *run) progress(format string, args ...any) {
	if r.Log != nil {
		fmt.Fprintf(r.Log, format+"\n", args...)
	}
}

// The forms of versions: a tag, and what git describe makes of commits after one.
var (
	tagged    = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)(?:-([0-9A-Za-z.]+))?$`)
	described = regexp.MustCompile(`^(.+)-(\d+)-g([0-9a-f]+)(-dirty)?$`)
	usable    = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+~_-]*$`)
	unusable  = regexp.MustCompile(`[^0-9A-Za-z.]+`)
)

// packageVersion turns a version into one that dpkg and rpm take and order right:
//
//	v1.2.3          1.2.3
//	v1.2.3-rc.1     1.2.3~rc.1        before 1.2.3
//	v1.2.3-4-gabc   1.2.3+4.gabc      after 1.2.3
//	abc, devel      0.0.0+abc         no tag: before everything
func packageVersion(v string) (string, error) {
	if v == "" {
		return "", errors.New("package without a version: give --version")
	}
	if !usable.MatchString(v) { // it is part of flags of the linker, and of file names
		return "", fmt.Errorf("package version %q: it may have only letters, digits and . + ~ _ -", v)
	}
	if m := described.FindStringSubmatch(v); m != nil && tagged.MatchString(m[1]) {
		base, err := packageVersion(m[1])
		return base + "+" + m[2] + ".g" + m[3] + strings.Replace(m[4], "-", ".", 1), err
	}
	if m := tagged.FindStringSubmatch(v); m != nil {
		if m[2] != "" && m[2] != "dirty" {
			return m[1] + "~" + m[2], nil
		}
		if m[2] != "" {
			return m[1] + "+" + m[2], nil
		}
		return m[1], nil
	}
	return "0.0.0+" + strings.Trim(unusable.ReplaceAllString(v, "."), "."), nil
}
