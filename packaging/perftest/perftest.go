// Package perftest makes the files of the container image with which kubectl rdma test measures: perftest, the
// libraries that it needs and a shell, from Debian's packages. packages.txt has their checksums, so the same list gives
// the same files wherever they come from.
package perftest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ulikunitz/xz"
)

// Package is a package of Debian.
type Package struct {
	Arch, Name, Version string
	SHA256              string // of the file, in hex
	Path                string // below a mirror of Debian
	License             string // an SPDX expression
}

//go:embed packages.txt
var pinned string

// Packages returns the packages for an architecture, in Debian's words, which are Go's for those that we have.
func Packages(arch string) (out []Package) {
	for line := range strings.Lines(pinned) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 6)
		if len(fields) == 6 && fields[0] == arch {
			out = append(out, Package{fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]})
		}
	}
	return out
}

// Source is where packages come from.
type Source struct {
	// Cache is a directory for downloaded packages.
	Cache string
	// Mirrors of Debian are asked in this order.
	Mirrors []string
}

// DefaultSource has the cache and the mirror of the tests ($DRA_RDMA_CACHE, $DRA_RDMA_DEBIAN_MIRROR). The snapshot has
// packages for which Debian has newer versions.
func DefaultSource() (Source, error) {
	cache := os.Getenv("DRA_RDMA_CACHE")
	if cache == "" {
		of, err := os.UserCacheDir()
		if err != nil {
			return Source{}, fmt.Errorf("find the cache for packages of Debian: %w; set DRA_RDMA_CACHE", err)
		}
		cache = filepath.Join(of, "dra-driver-rdma")
	}
	return Source{Cache: filepath.Join(cache, "debian"), Mirrors: []string{
		cmp.Or(os.Getenv("DRA_RDMA_DEBIAN_MIRROR"), "http://deb.debian.org/debian"),
		"https://snapshot.debian.org/archive/debian/20260801T000000Z",
	}}, nil
}

// maxPackage bounds a download, in bytes.
const maxPackage = 64 << 20

// get returns a package's content, which has the checksum of the list.
func (s Source) get(ctx context.Context, p Package) ([]byte, error) {
	cached := filepath.Join(s.Cache, p.SHA256+".deb")
	if data, err := os.ReadFile(cached); err == nil && p.has(data) {
		return data, nil
	}
	var errs []error
	for _, mirror := range s.Mirrors {
		address := strings.TrimSuffix(mirror, "/") + "/" + p.Path
		data, err := download(ctx, address)
		if err == nil && !p.has(data) {
			err = fmt.Errorf("download %s: the checksum is not %s", address, p.SHA256)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		return data, s.keep(cached, data)
	}
	return nil, fmt.Errorf("get %s %s for %s: %w", p.Name, p.Version, p.Arch, errors.Join(errs...))
}

func (p Package) has(data []byte) bool { return fmt.Sprintf("%x", sha256.Sum256(data)) == p.SHA256 }

// keep writes a package into the cache. Another process may do the same.
func (s Source) keep(name string, data []byte) error {
	if err := os.MkdirAll(s.Cache, 0o755); err != nil {
		return fmt.Errorf("make the cache for packages of Debian: %w", err)
	}
	f, err := os.CreateTemp(s.Cache, ".download-")
	if err != nil {
		return fmt.Errorf("keep a package of Debian: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("keep a package of Debian: %w", err)
	}
	return nil
}

func download(ctx context.Context, address string) ([]byte, error) {
	var err error
	for try := range 3 {
		var data []byte
		if data, err = fetch(ctx, address); err == nil {
			return data, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Duration(try) * time.Second):
		}
	}
	return nil, err
}

func fetch(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("download %s: %s", address, answer.Status)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxPackage))
	if err != nil {
		return nil, fmt.Errorf("download %s: %w", address, err)
	}
	return data, nil
}

// wanted matches the files of the image: one program of perftest, libraries, the providers of RDMA devices, a shell,
// and the licenses. Nothing here converts character sets.
var (
	wanted = regexp.MustCompile(`^(usr/bin/ib_write_bw|bin/busybox|etc/libibverbs\.d/.*|(usr/)?lib(64)?/.*|` +
		`usr/share/doc/[^/]*(/copyright)?)$`)
	unwanted = regexp.MustCompile(`/gconv/|^usr/lib/modules|^usr/lib/systemd`)
)

// applets are BusyBox's programs that internal/inspect/traffic runs in the image, beside the shell's own.
var applets = []string{"sh", "cat", "grep", "sed", "sleep", "timeout"}

// Unpack writes the image's files for an architecture into a directory.
func Unpack(ctx context.Context, s Source, arch, dir string) error {
	packages := Packages(arch)
	if len(packages) == 0 {
		return fmt.Errorf("unpack perftest for %s: the list has no packages for it", arch)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("unpack perftest: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpack perftest: %w", err)
	}
	defer root.Close()
	for _, p := range packages {
		data, err := s.get(ctx, p)
		if err == nil {
			err = unpack(root, data)
		}
		if err != nil {
			return fmt.Errorf("unpack %s %s: %w", p.Name, p.Version, err)
		}
	}
	for _, name := range applets {
		for _, in := range []string{"bin", "usr/bin"} {
			if err := link(root, "/bin/busybox", in+"/"+name); err != nil {
				return fmt.Errorf("unpack perftest: %w", err)
			}
		}
	}
	return nil
}

// unpack writes the wanted files of a package.
func unpack(root *os.Root, deb []byte) error {
	data, err := member(deb, "data.tar.xz")
	if err != nil {
		return err
	}
	uncompressed, err := xz.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	for r := tar.NewReader(uncompressed); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path.Clean(h.Name), "/")
		if !wanted.MatchString(name) || unwanted.MatchString(name) {
			continue
		}
		switch h.Typeflag {
		case tar.TypeSymlink:
			err = link(root, h.Linkname, name)
		case tar.TypeReg:
			err = write(root, name, h.FileInfo().Mode().Perm(), r)
		}
		if err != nil {
			return err
		}
	}
}

func write(root *os.Root, name string, mode os.FileMode, content io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

func link(root *os.Root, to, name string) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return root.Symlink(to, name)
}

// member returns a member of an archive in the format of ar(5), as deb(5) has it.
func member(deb []byte, name string) ([]byte, error) {
	const magic, header = "!<arch>\n", 60
	rest, found := bytes.CutPrefix(deb, []byte(magic))
	if !found {
		return nil, errors.New("read a package of Debian: it is no archive")
	}
	for len(rest) >= header {
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil || size < 0 || size > len(rest)-header {
			break
		}
		if strings.TrimRight(string(rest[:16]), " /") == name {
			return rest[header : header+size], nil
		}
		rest = rest[min(len(rest), header+size+size%2):]
	}
	return nil, fmt.Errorf("read a package of Debian: it has no %s", name)
}
