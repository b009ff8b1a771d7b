// Package nodefeature writes a feature file. Node Feature Discovery (NFD) makes a label of the node from it, so the
// driver needs no right to write nodes.
//
// NFD reads the files of a directory, and adds a label for each line KEY=VALUE
// (https://kubernetes-sigs.github.io/node-feature-discovery, "Local feature source"). It ignores hidden files, so it
// never sees the temporary file of a replacement. From version 0.14 on, it ignores a file after its expiry time: the
// label of a node without a driver goes by itself.
package nodefeature

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// LeafLabel is the label with the leaf switch of a node.
const LeafLabel = rdma.Domain + "/leaf-switch"

// File is the name of the file.
const File = rdma.Domain + "-leaf-switch"

// Expires is how long a file counts, and Renew how often it is written again.
const (
	Expires = 24 * time.Hour
	Renew   = time.Hour
)

// Write makes the directory say that the node has a leaf switch, "" for none. A name that cannot be the value of a
// label is an error, and the node gets no label: two names must not become one.
func Write(dir, leaf string, now time.Time) error {
	path := filepath.Join(dir, File)
	var wrong error
	if problems := validation.IsValidLabelValue(leaf); len(problems) > 0 {
		leaf, wrong = "", fmt.Errorf("the leaf switch %.100q cannot be a label of the node: %s", leaf, problems[0])
	}
	if leaf == "" {
		err := os.Remove(path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return wrong
		}
		return errors.Join(wrong, fmt.Errorf("remove the feature file of NFD: %w", err))
	}
	text := fmt.Sprintf("# +expiry-time=%s\n%s=%s\n", now.Add(Expires).UTC().Format(time.RFC3339), LeafLabel, leaf)
	if _, err := atomicfile.Write(path, []byte(text), atomicfile.Options{Mode: 0o644}); err != nil {
		return fmt.Errorf("write the feature file of NFD: %w", err)
	}
	return nil
}
