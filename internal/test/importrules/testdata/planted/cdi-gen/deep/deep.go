// Package deep is what the planted violation reaches Kubernetes by.
package deep

import "k8s.io/apimachinery/pkg/types"

// UID is Kubernetes' own.
type UID = types.UID
