// Package planted breaks the rule "locks": it has a lock of its own.
package planted

import "golang.org/x/sys/unix"

var use = unix.Flock
