package release

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// The lines of Chart.yaml that name a version.
var (
	chartVersion = regexp.MustCompile(`(?m)^version: .*$`)
	appVersion   = regexp.MustCompile(`(?m)^appVersion: (.*)$`)
)

// chart makes the archive of the Helm chart, and the plain manifests. Both name the image
// of this version, which is that of the checkout in a release.
func (r *run) chart() ([]string, error) {
	dir := filepath.Join(r.Source, "deployments", "helm", driver)
	text, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	of := appVersion.FindSubmatch(text)
	if of == nil {
		return nil, fmt.Errorf("read the chart %q: it has no appVersion", dir)
	}
	if tagged.MatchString(r.Version) && string(of[1]) != r.Version {
		return nil, fmt.Errorf("make the chart of %s: %s has appVersion %s: set it, run make golden and commit both before the tag", r.Version, filepath.Join(dir, "Chart.yaml"), of[1])
	}
	text = chartVersion.ReplaceAll(text, []byte("version: "+strings.ReplaceAll(r.semver(), "$", "$$")))
	text = appVersion.ReplaceAll(text, []byte("appVersion: "+r.Version))
	name := driver + "-" + r.semver() + ".tgz"
	if err := writeFile(filepath.Join(r.work, name), func(w io.Writer) error { return r.chartArchive(w, dir, text) }); err != nil {
		return nil, fmt.Errorf("write chart: %w", err)
	}
	const manifests = driver + ".yaml"
	plain, err := os.ReadFile(filepath.Join(r.Source, "deployments", "manifests", manifests))
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	plain = []byte(strings.ReplaceAll(string(plain), string(of[1]), r.Version))
	if err := os.WriteFile(filepath.Join(r.work, manifests), plain, 0o644); err != nil {
		return nil, fmt.Errorf("write manifests: %w", err)
	}
	return []string{name, manifests}, nil
}

// chartArchive writes the directory of a chart as helm package does, with one date.
func (r *run) chartArchive(w io.Writer, dir string, chart []byte) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if relative == "Chart.yaml" {
			data = chart
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(driver, filepath.ToSlash(relative)), Mode: 0o644, Size: int64(len(data)), ModTime: r.Date}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		_, err = t.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}
