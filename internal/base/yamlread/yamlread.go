// Package yamlread reads untrusted YAML files within bounds. It is the only package that may give text to a YAML
// decoder: a rule of package importrules keeps other packages from it. They decode the nodes that this package returns.
//
// The decoder itself has no bounds. It compares each key of a mapping with all others, and makes a message for each
// equal pair: 20 KB with one repeated key make a message of 68 MB. A value takes 200 bytes of memory, but as little as
// two bytes of the file. Each use of an alias can expand to as much text as the file can hold.
//
// [Positions] are those of the fields of a file, so that an error can name the line and the field.
package yamlread

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// Limits bound the size of a file.
type Limits struct {
	Size   int // bytes of the file, and of all its text after the expansion of aliases
	Values int // keys, values and collections, after the expansion of aliases
}

// Config is for files that people write. The largest file that a ConfigMap can hold has 1 MiB, and the file of a site
// has a few kilobytes. TestHostile limits the allocations for a rejected file to 32 MiB.
var Config = Limits{Size: 256 << 10, Values: 20_000}

// Spec is for CDI specs: the spec of 1,016 HCAs under four names has 2 MiB. No program of the driver's pod decodes a
// spec. cdi-gen reads specs within these bounds.
var Spec = Limits{Size: 8 << 20, Values: 500_000}

// Table is for tables that programs write: as many lines of a few fields as a ConfigMap can hold.
var Table = Limits{Size: 1 << 20, Values: 120_000}

const (
	// maxDepth bounds the nesting of collections.
	maxDepth = 64
	// maxKeys bounds the keys of one mapping, because the decoder compares each key with all others.
	maxKeys = 5_000
)

// Read reads a regular file, and returns an error if the file exceeds the size limit.
func (l Limits) Read(path string) ([]byte, error) {
	data, err := hostfs.ReadLocal(path, int64(l.Size))
	if errors.Is(err, hostfs.ErrTooLarge) {
		return nil, &fs.PathError{Op: "read", Path: path, Err: l.tooLarge()}
	}
	return data, err
}

// ReadArgument is Read for a file that an argument of this process names. So it also reads standard input, as - or
// /dev/stdin, and the pipe of a shell's <(...). Any other pipe could keep the process waiting. Standard input is read
// as it was passed: a path would open it again, which fails for a socket and for another user's pipe.
func (l Limits) ReadArgument(path string, stdin io.Reader) ([]byte, error) {
	switch {
	case path == "-" || path == "/dev/stdin":
		return l.readAll("standard input", stdin)
	case !strings.HasPrefix(path, "/dev/fd/"):
		return l.Read(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return l.readAll(path, f)
}

func (l Limits) readAll(name string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(l.Size)+1))
	if err == nil {
		err = l.checkSize(data)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data, nil
}

func (l Limits) checkSize(data []byte) error {
	if len(data) > l.Size {
		return l.tooLarge()
	}
	return nil
}

func (l Limits) tooLarge() error { return fmt.Errorf("it is larger than %s", bytesOf(l.Size)) }

func bytesOf(n int) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// Decode decodes a file of one document strictly: unknown fields and duplicate keys are errors.
func (l Limits) Decode(data []byte, into any) error {
	if _, err := l.ParseOnly(data); err != nil {
		return err
	}
	strict := yaml.NewDecoder(bytes.NewReader(data))
	strict.KnownFields(true)
	return strict.Decode(into)
}

// ParseOnly returns the document of a file, after checking the limits. A second document is an error.
func (l Limits) ParseOnly(data []byte) (*yaml.Node, error) {
	documents := yaml.NewDecoder(bytes.NewReader(data))
	root, _, err := l.next(documents, data)
	if err != nil {
		return nil, err
	}
	if err := documents.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document")
	}
	return root, nil
}

// Parse returns the first document of a file, after checking the limits. Another decoder then needs memory in
// proportion to the size of the file. Parse ignores later documents.
func (l Limits) Parse(data []byte) (*yaml.Node, error) {
	root, _, err := l.next(yaml.NewDecoder(bytes.NewReader(data)), data)
	return root, err
}

// Documents returns all documents of a file. It passes over empty ones. Each document is within the limits, and so are
// all of them together.
func (l Limits) Documents(data []byte) (out []*yaml.Node, _ error) {
	documents, all := yaml.NewDecoder(bytes.NewReader(data)), size{}
	for {
		root, used, err := l.next(documents, data)
		if errors.Is(err, errEmpty) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if all.values, all.bytes = all.values+used.values, all.bytes+used.bytes; all.values > l.Values {
			return nil, l.tooMany()
		} else if all.bytes > l.Size {
			return nil, l.tooMuchText()
		}
		if root.Content[0].Tag != "!!null" {
			out = append(out, root)
		}
	}
}

var errEmpty = errors.New("it is empty")

func (l Limits) next(documents *yaml.Decoder, data []byte) (*yaml.Node, size, error) {
	if err := l.checkSize(data); err != nil {
		return nil, size{}, err
	}
	if markers(data) > l.Values {
		return nil, size{}, l.tooMany()
	}
	var root yaml.Node
	if err := documents.Decode(&root); errors.Is(err, io.EOF) {
		return nil, size{}, errEmpty
	} else if err != nil {
		return nil, size{}, err
	}
	used, err := l.check(&root)
	return &root, used, err
}

func (l Limits) tooMany() error {
	return fmt.Errorf("it has more than %d keys and values", l.Values)
}

func (l Limits) tooMuchText() error {
	return fmt.Errorf("it has more than %s of text", bytesOf(l.Size))
}

// markers counts the characters that can mark a value. Every value of a file except the first has one of them in front,
// or between its key and itself. So the count bounds the number of values before any value takes memory.
func markers(data []byte) (n int) {
	for _, mark := range []string{",", ":", "-", "?", "[", "{"} {
		n += bytes.Count(data, []byte(mark))
	}
	return n
}
