// Package planted breaks the rule "rdmamap": it calls the library itself.
package planted

import "github.com/Mellanox/rdmamap"

var _ = rdmamap.GetRdmaDeviceList
