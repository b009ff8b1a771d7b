// Package support makes what people attach to bug reports: archives ([TarGz]) of texts from which a [Scrubber] has
// taken what identifies hosts, clusters and users. cdi-gen report and kubectl rdma bundle use it.
package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"strings"
)

// File is an entry of an archive: a file, a symbolic link if it has a target, or a directory if its name ends in "/".
type File struct {
	Name string
	Data []byte
	Link string
}

// TarGz makes an archive of files below a directory. Equal files make equal archives.
func TarGz(dir string, files []File) ([]byte, error) {
	var buf bytes.Buffer
	zipped := gzip.NewWriter(&buf)
	w := tar.NewWriter(zipped)
	var errs []error
	for _, f := range files {
		header := &tar.Header{Name: dir + "/" + f.Name, Mode: 0o644, Size: int64(len(f.Data)), Linkname: f.Link}
		if f.Link != "" {
			header.Typeflag = tar.TypeSymlink
		}
		if strings.HasSuffix(f.Name, "/") {
			header.Typeflag, header.Mode = tar.TypeDir, 0o755
		}
		errs = append(errs, w.WriteHeader(header))
		_, err := w.Write(f.Data)
		errs = append(errs, err)
	}
	if err := errors.Join(append(errs, w.Close(), zipped.Close())...); err != nil {
		return nil, fmt.Errorf("make the archive: %w", err)
	}
	return buf.Bytes(), nil
}
