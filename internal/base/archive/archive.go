// Package archive makes the archives of reports for support (a leaf: standard library only).
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
)

// File is a file of an archive.
type File struct {
	Name string
	Data []byte
}

// TarGz makes an archive of files below a directory. Equal files make equal archives.
func TarGz(dir string, files []File) ([]byte, error) {
	var buf bytes.Buffer
	zipped := gzip.NewWriter(&buf)
	w := tar.NewWriter(zipped)
	var errs []error
	for _, f := range files {
		header := &tar.Header{Name: dir + "/" + f.Name, Mode: 0o644, Size: int64(len(f.Data))}
		errs = append(errs, w.WriteHeader(header))
		_, err := w.Write(f.Data)
		errs = append(errs, err)
	}
	if err := errors.Join(append(errs, w.Close(), zipped.Close())...); err != nil {
		return nil, fmt.Errorf("make the archive: %w", err)
	}
	return buf.Bytes(), nil
}
