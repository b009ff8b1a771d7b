package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
)

// ForeignError says why a file is not a spec of the store's kind. The file belongs to another program
// or to a person, so the store neither replaces nor removes it.
type ForeignError struct {
	Path string
	why  string
}

// Error implements the error interface.
func (e *ForeignError) Error() string { return fmt.Sprintf("%q %s", e.Path, e.why) }

// Load returns the content of the spec with a base name. It returns a [*ForeignError] for a file that is
// no spec of the store's kind, and fs.ErrNotExist for no file. Like runtimes, it follows
// links. It opens only regular files of bounded size.
func (s Store) Load(base string, format Format) ([]byte, error) {
	return loadSpec(s.Path(base, format), s.Kind)
}

func loadSpec(path, kind string) ([]byte, error) {
	data, why, err := readRegular(path)
	if err != nil {
		return nil, fmt.Errorf("read CDI spec: %w", err)
	}
	is := ""
	if why == "" {
		is, why = kindOf(data)
	}
	switch {
	case why != "":
		return nil, &ForeignError{path, why + ", so it is no spec of kind " + kind}
	case is != kind:
		return nil, &ForeignError{path, fmt.Sprintf("is a spec of kind %s, not %s", is, kind)}
	}
	return data, nil
}

// readRegular reads a file. why is the reason why the file cannot be a spec.
func readRegular(path string) (data []byte, why string, err error) {
	data, err = hostfs.ReadLocal(path, int64(yamlread.Spec.Size))
	switch {
	case errors.Is(err, hostfs.ErrNotRegular):
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return nil, "is a directory", nil
		}
		return nil, "is no regular file", nil
	case errors.Is(err, hostfs.ErrTooLarge):
		return nil, "is larger than any spec", nil
	case errors.Is(err, unix.ELOOP):
		return nil, "is a link with " + unix.ELOOP.Error(), nil
	case errors.Is(err, fs.ErrNotExist):
		if link, err := os.Lstat(path); err == nil && link.Mode()&fs.ModeSymlink != 0 {
			return nil, "is a link to nothing", nil
		}
	}
	return data, "", err
}

// kindOf returns the kind of a spec, or why the text is no spec. It reads only fields that every
// version has, so it accepts a spec of a newer version.
func kindOf(data []byte) (kind, why string) {
	doc, err := yamlread.Spec.ParseOnly(data)
	if err != nil {
		return "", "is not one document of JSON or YAML: " + yamlread.Shorten(err).Error()
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return "", "is a list or a single value"
	}
	fields := map[string]string{}
	for pairs := doc.Content[0].Content; len(pairs) > 1; pairs = pairs[2:] {
		name := pairs[0].Value
		if pairs[1].Kind == yaml.ScalarNode && pairs[1].Tag == "!!str" {
			fields[name] = pairs[1].Value
		}
	}
	for _, name := range []string{"cdiVersion", "kind"} {
		if fields[name] == "" {
			return "", "has no " + name
		}
	}
	return fields["kind"], ""
}
