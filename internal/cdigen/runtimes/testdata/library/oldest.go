//go:build oldest

package main

import "github.com/container-orchestrated-devices/container-device-interface/pkg/cdi"

// options: 0.4.0 refreshes itself only when it is told to.
var options []cdi.Option
