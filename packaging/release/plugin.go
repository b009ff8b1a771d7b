package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/template"

	"github.com/rdma-dev/dra-driver-rdma/packaging/manpage"
)

const (
	// plugin is the program that kubectl runs for "kubectl rdma".
	plugin = "kubectl-rdma"
	// krewName is that of the plugin's manifest.
	krewName = "rdma.yaml"
)

// Platform is what the plugin is built for, as "linux/amd64".
type Platform string

// Platforms are those of the people who use kubectl.
var Platforms = []Platform{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}

// OS and Arch are in Go's words, which are krew's.
func (p Platform) OS() string { return strings.Split(string(p), "/")[0] }

// Arch is the architecture.
func (p Platform) Arch() string { return strings.TrimPrefix(string(p), p.OS()+"/") }

// archive is a finished archive of the plugin.
type archive struct {
	Platform Platform
	Name     string
	SHA256   string
}

// plugins makes an archive for each platform, and the manifest of krew, the package manager of kubectl plugins.
// krew uses the manifest to install the archives from a release.
func (r *run) plugins(ctx context.Context) ([]string, error) {
	if len(r.Plugins) == 0 {
		return nil, nil
	}
	common, err := r.pluginCommon(ctx)
	if err != nil {
		return nil, err
	}
	var archives []archive
	names := []string{krewName}
	for _, p := range r.Plugins {
		a, err := r.plugin(ctx, p, common)
		if err != nil {
			return nil, err
		}
		archives = append(archives, a)
		bin, err := r.buildPlugin(ctx, p)
		if err != nil {
			return nil, err
		}
		sbom, err := r.sbom(ctx, strings.TrimSuffix(a.Name, ".tar.gz"), bin)
		if err != nil {
			return nil, err
		}
		names = append(names, sbom)
	}
	if err := r.krew(archives); err != nil {
		return nil, err
	}
	for _, a := range archives {
		names = append(names, a.Name)
	}
	return names, nil
}

// pluginCommon returns the files that are the same for every platform: the completion,
// the license, and the manual pages, which the program itself tells.
func (r *run) pluginCommon(ctx context.Context) ([]file, error) {
	bin, err := r.buildPlugin(ctx, Platform(runtime.GOOS+"/"+runtime.GOARCH))
	if err != nil {
		return nil, err
	}
	r.progress("writing manual pages of %s", plugin)
	pages, err := r.commandPages(ctx, filepath.Dir(bin), []string{plugin}, "show the RDMA devices of a cluster, and why a pod does not get its")
	if err != nil {
		return nil, err
	}
	out := []file{
		{path: "kubectl_complete-rdma", mode: 0o755, source: filepath.Join(r.Source, "packaging/krew/kubectl_complete-rdma")},
		{path: "LICENSE", mode: 0o644, source: filepath.Join(r.Source, "LICENSE")},
		{path: "kubectl-rdma.md", mode: 0o644, source: filepath.Join(r.Source, "docs/kubectl-rdma.md")},
	}
	for _, p := range pages {
		p.Version, p.Date, p.SeeAlso = plugin+" "+r.version, r.Date, others(p, pages)
		f, err := r.manPage(p)
		if err != nil {
			return nil, err
		}
		f.path = strings.TrimPrefix(f.path, "/usr/share/")
		out = append(out, f)
	}
	return out, nil
}

// others are the references from a page: the program's to all, and all to it.
func others(page manpage.Page, pages []manpage.Page) []string {
	out := []string{"kubectl(1)"}
	for _, other := range pages {
		if other.Name != page.Name && (page.Name == plugin || other.Name == plugin) {
			out = append(out, other.Reference())
		}
	}
	slices.Sort(out)
	return out
}

// plugin makes the archive of a platform. Everything stands at its top, as krew and
// who unpacks it into a directory of PATH want it.
func (r *run) plugin(ctx context.Context, p Platform, common []file) (archive, error) {
	bin, err := r.buildPlugin(ctx, p)
	if err != nil {
		return archive{}, err
	}
	files := append([]file{{path: plugin, mode: 0o755, source: bin}}, common...)
	a := archive{Platform: p, Name: fmt.Sprintf("%s_%s_%s_%s.tar.gz", plugin, r.semver(), p.OS(), p.Arch())}
	sum := sha256.New()
	err = writeFile(filepath.Join(r.work, a.Name), func(w io.Writer) error {
		z := gzip.NewWriter(io.MultiWriter(w, sum))
		t := tar.NewWriter(z)
		for _, f := range files {
			if err := r.tarFile(t, f.path, f); err != nil {
				return err
			}
		}
		if err := t.Close(); err != nil {
			return err
		}
		return z.Close()
	})
	if err != nil {
		return a, fmt.Errorf("write archive of the plugin: %w", err)
	}
	a.SHA256 = fmt.Sprintf("%x", sum.Sum(nil))
	return a, nil
}

// semver is the version as krew orders it: it has no ~.
func (r *run) semver() string { return strings.Replace(r.version, "~", "-", 1) }

// buildPlugin links the plugin and returns its path.
func (r *run) buildPlugin(ctx context.Context, p Platform) (string, error) {
	dir, err := filepath.Abs(filepath.Join(r.work, "plugin-"+p.OS()+"-"+p.Arch()))
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, plugin)
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	r.progress("building %s for %s", plugin, p)
	_, err = command(ctx, r.Source, buildEnv(p.OS(), p.Arch()), "go", r.buildArgs(bin, "./cmd/"+plugin)...)
	if err != nil {
		return "", fmt.Errorf("build %s for %s: %w", plugin, p, err)
	}
	return bin, nil
}

//go:embed rdma.yaml.tmpl
var krewManifest string

// krew writes the manifest.
func (r *run) krew(archives []archive) error {
	t, err := template.New(krewName).Parse(krewManifest)
	if err != nil {
		return fmt.Errorf("parse the krew manifest: %w", err)
	}
	tag := r.Version
	if !strings.HasPrefix(tag, "v") {
		tag = "v" + r.semver()
	}
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{"Version": "v" + r.semver(), "Tag": tag, "Homepage": homepage, "Archives": archives})
	if err != nil {
		return fmt.Errorf("write the krew manifest: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.work, krewName), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the krew manifest: %w", err)
	}
	return nil
}
