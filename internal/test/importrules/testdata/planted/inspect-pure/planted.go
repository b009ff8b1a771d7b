// Package planted breaks the rule "inspect-pure": it has a client, and reads a file.
package planted

import (
	"os"

	"k8s.io/client-go/kubernetes"
)

var _ = []any{os.ReadFile, kubernetes.NewForConfig}
