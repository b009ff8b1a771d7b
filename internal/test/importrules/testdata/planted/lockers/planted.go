// Package planted breaks the rule "lockers": it is a third place with locks against another driver.
package planted

import "github.com/rdma-dev/dra-driver-rdma/internal/base/flock"

var use = flock.Lock
