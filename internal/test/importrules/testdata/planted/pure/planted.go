// Package planted breaks the rule "pure": it reads a file, has a client,
// and knows of the policy.
package planted

import (
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

var _ = []any{os.ReadFile, rest.InClusterConfig, resourceslice.Slice{}, policy.Default}
