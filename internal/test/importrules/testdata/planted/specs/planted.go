// Package planted breaks the rule "specs": it panics on a null in somebody's spec.
package planted

import cdiapi "tags.cncf.io/container-device-interface/pkg/cdi"

var read = cdiapi.ReadSpec
