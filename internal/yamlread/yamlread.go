// Package yamlread reads YAML files of others within bounds. It is the only package that calls a YAML
// decoder: a rule of package importrules keeps all others from it.
//
// The decoder by itself has no bounds. It compares each key of a mapping with all others, and makes a
// message for each pair that is equal: 20 KB with one key make a message of 68 MB. A value takes 200 bytes of
// memory, though the file has two bytes of it. An alias stands for as much as the file can hold, each time.
package yamlread

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"go.yaml.in/yaml/v3"
)

// Limits are the most that a file may be.
type Limits struct {
	Size   int // bytes of the file, and of all texts in it where each alias has become what it stands for
	Values int // keys, values and collections, counted in the same way
}

// Config is for what people write: the largest one that a ConfigMap holds has 1 MiB, and a site has a few
// kilobytes. TestHostile holds what a refused file allocates to 32 MiB.
var Config = Limits{Size: 256 << 10, Values: 20_000}

// Spec is for CDI specs: that of 1,016 HCAs under four names has 2 MiB. No program of the driver's pod decodes
// one, and cdi-gen reads them within these bounds.
var Spec = Limits{Size: 8 << 20, Values: 500_000}

const (
	// maxDepth is how deep collections may be within each other.
	maxDepth = 64
	// maxKeys are the keys of one mapping: the decoder compares each with all others.
	maxKeys = 5_000
)

// Read reads a file that is not larger than it may be. What is no regular file is read as well, such as the
// /dev/stdin or <(...) of a shell.
func (l Limits) Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(l.Size)+1))
	if err != nil {
		return nil, err
	}
	if err := l.checkSize(data); err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return data, nil
}

func (l Limits) checkSize(data []byte) error {
	if len(data) > l.Size {
		return fmt.Errorf("it is larger than %s", bytesOf(l.Size))
	}
	return nil
}

func bytesOf(n int) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// Decode decodes a file of one document strictly: an unknown field and a key that stands twice are errors.
func (l Limits) Decode(data []byte, into any) error {
	if _, err := l.ParseOnly(data); err != nil {
		return err
	}
	strict := yaml.NewDecoder(bytes.NewReader(data))
	strict.KnownFields(true)
	return strict.Decode(into)
}

// ParseOnly returns the only document of a file, which is within the limits.
func (l Limits) ParseOnly(data []byte) (*yaml.Node, error) {
	documents := yaml.NewDecoder(bytes.NewReader(data))
	root, err := l.next(documents, data)
	if err != nil {
		return nil, err
	}
	if err := documents.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document")
	}
	return root, nil
}

// Parse returns the first document of a file, which is within the limits. What another decoder then makes of the
// file takes memory in proportion to its size. Later documents are not looked at.
func (l Limits) Parse(data []byte) (*yaml.Node, error) {
	return l.next(yaml.NewDecoder(bytes.NewReader(data)), data)
}

func (l Limits) next(documents *yaml.Decoder, data []byte) (*yaml.Node, error) {
	if err := l.checkSize(data); err != nil {
		return nil, err
	}
	if markers(data) > l.Values {
		return nil, l.tooMany()
	}
	var root yaml.Node
	if err := documents.Decode(&root); errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty")
	} else if err != nil {
		return nil, err
	}
	return &root, l.check(&root)
}

func (l Limits) tooMany() error {
	return fmt.Errorf("it has more than %d keys and values", l.Values)
}

// markers counts the characters that can mark a value. One of them stands before every value of a file but the first,
// or between a key and its value. The count bounds the number of values before any value takes memory.
func markers(data []byte) int {
	n := 0
	for _, b := range data {
		switch b {
		case ',', ':', '-', '?', '[', '{':
			n++
		}
	}
	return n
}
