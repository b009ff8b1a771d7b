// Package v1alpha1 is the version v1alpha1 of the configuration API rdma.dev:
// the opaque parameters that a DeviceClass or a ResourceClaim carries for the
// driver rdma.dev (KEP-4381, DeviceConfiguration.opaque.parameters).
//
// There are two kinds, for two roles. An administrator writes an [HCAClassConfig] into
// a DeviceClass: the bounds and the defaults of its claims. A user writes an
// [HCAConfig] into a claim: settings within these bounds.
// [Decode] is strict: an unknown or misspelled field is an error that names it.
package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// GroupVersion of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: rdma.Domain, Version: "v1alpha1"}

// The kinds.
const (
	HCAConfigKind      = "HCAConfig"
	HCAClassConfigKind = "HCAClassConfig"
)
