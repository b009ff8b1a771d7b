// Package planted breaks the rule "pure": it reads a file and has a client.
package planted

import (
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

var _ = []any{os.ReadFile, rest.InClusterConfig, resourceslice.Slice{}}
