//go:build old && !oldest

package main

import "github.com/container-orchestrated-devices/container-device-interface/pkg/cdi"

var options = []cdi.Option{cdi.WithAutoRefresh(false)}
