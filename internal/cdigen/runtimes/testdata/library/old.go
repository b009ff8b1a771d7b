//go:build old

package main

import "github.com/container-orchestrated-devices/container-device-interface/pkg/cdi"

func look(dirs []string) []string {
	// 0.4.0 returns an error for an invalid file, and runtimes log it.
	c, _ := cdi.NewCache(append(options, cdi.WithSpecDirs(dirs...))...)
	return c.ListDevices()
}
