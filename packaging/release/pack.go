package release

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	nfpmfiles "github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const (
	homepage    = "https://github.com/rdma-dev/dra-driver-rdma"
	summary     = "RDMA devices for containers, by name"
	authors     = "The dra-driver-rdma authors"
	maintainer  = authors + " <maintainers@rdma.dev>"
	description = summary + `
cdi-gen describes the RDMA devices (InfiniBand, RoCE, iWARP, EFA) of a host to
podman, docker, containerd and CRI-O in the Container Device Interface, so that
a container gets exactly the device it names, with locked memory that works
without capabilities: its OCI hook rdma-hook raises the limit.`
)

func (r *run) deb(arch string, files []file) (string, error) {
	return r.nfpm(deb.Default, arch, "deb", files)
}

func (r *run) rpm(arch string, files []file) (string, error) {
	return r.nfpm(rpm.DefaultRPM, arch, "rpm", files)
}

// nfpm makes a deb or rpm.
func (r *run) nfpm(packager nfpm.Packager, arch, kind string, files []file) (string, error) {
	info := r.info(arch, kind, files)
	name := packager.ConventionalFileName(info)
	if err := nfpm.PrepareForPackager(info, strings.TrimPrefix(filepath.Ext(name), ".")); err != nil {
		return "", fmt.Errorf("prepare %s: %w", name, err)
	}
	err := writeFile(filepath.Join(r.work, name), func(w io.Writer) error { return packager.Package(info, w) })
	if err != nil {
		return "", fmt.Errorf("write package: %w", err)
	}
	return name, nil
}

func (r *run) info(arch, kind string, files []file) *nfpm.Info {
	script := func(name string) string { return filepath.Join(r.Source, "packaging/scripts", name) }
	return nfpm.WithDefaults(&nfpm.Info{
		Name: Name, Arch: arch, Platform: "linux",
		Version: r.version, VersionSchema: "none", Release: "1",
		Section: "admin", Priority: "optional",
		Maintainer:  maintainer,
		Vendor:      authors,
		Description: description, Homepage: homepage, License: "Apache-2.0",
		MTime: r.Date, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Contents: r.contents(kind, forKind(kind, files)),
			Scripts: nfpm.Scripts{
				PostInstall: script("postinstall.sh"),
				PreRemove:   script("preremove.sh"),
				PostRemove:  script("postremove.sh"),
			},
			Suggests: []string{"rdma-core"},
			RPM:      nfpm.RPM{BuildHost: "reproducible", Summary: summary, Group: "System Environment/Base"},
			Deb:      nfpm.Deb{Compression: "xz"},
		},
	})
}

// contents says for each file what nfpm would otherwise ask the file system.
func (r *run) contents(kind string, files []file) nfpmfiles.Contents {
	var out nfpmfiles.Contents
	own := map[string]bool{}
	for _, f := range files {
		out = append(out, &nfpmfiles.Content{
			Source: f.source, Destination: f.path, Type: contentType(kind, f.path),
			FileInfo: &nfpmfiles.ContentFileInfo{Mode: f.mode, MTime: r.Date, Owner: "root", Group: "root"},
		})
		// Directories of this package's own name go when it is removed.
		if dir := path.Dir(f.path); path.Base(dir) == Name && !own[dir] {
			own[dir] = true
			out = append(out, &nfpmfiles.Content{
				Destination: dir, Type: nfpmfiles.TypeDir,
				FileInfo: &nfpmfiles.ContentFileInfo{Mode: 0o755, MTime: r.Date, Owner: "root", Group: "root"},
			})
		}
	}
	return out
}

// contentType returns what a package manager does with a file: it keeps an administrator's changes of one in /etc,
// and can leave out documents but no licenses (rpm --excludedocs).
func contentType(kind, name string) string {
	dir := path.Dir(name)
	switch {
	case strings.HasPrefix(name, "/etc/"):
		return nfpmfiles.TypeConfigNoReplace
	case kind != "rpm":
		return ""
	case dir == licenseDir:
		return nfpmfiles.TypeRPMLicense
	case dir == docDir || strings.HasPrefix(name, "/usr/share/man/"):
		return nfpmfiles.TypeRPMDoc
	}
	return ""
}

// tar makes an archive of what the packages have below /usr, for any prefix:
// tar -C /usr/local --strip-components=1 -xzf FILE.
func (r *run) tar(arch string, files []file) (string, error) {
	top := fmt.Sprintf("%s_%s_linux_%s", Name, r.version, arch)
	name := top + ".tar.gz"
	err := writeFile(filepath.Join(r.work, name), func(w io.Writer) error {
		z := gzip.NewWriter(w)
		t := tar.NewWriter(z)
		for _, f := range forKind("tar", files) {
			if err := r.tarFile(t, path.Join(top, strings.TrimPrefix(f.path, "/usr")), f); err != nil {
				return err
			}
		}
		if err := t.Close(); err != nil {
			return err
		}
		return z.Close()
	})
	if err != nil {
		return "", fmt.Errorf("write archive: %w", err)
	}
	return name, nil
}

func (r *run) tarFile(t *tar.Writer, name string, f file) error {
	data, err := os.ReadFile(f.source)
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(f.mode), Size: int64(len(data)), ModTime: r.Date, Uname: "root", Gname: "root"}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err = t.Write(data)
	return err
}

// writeFile makes a file; what cannot be written whole is an error.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
