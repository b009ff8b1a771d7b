// Package version says which build this is: programs print it for "version" and --version.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version is set when a release is linked:
// -ldflags "-X github.com/rdma-dev/dra-driver-rdma/internal/base/version.Version=v1.2.3".
var Version = ""

// Get returns the linked version, else the module's, else "devel".
func Get() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// String is the line that a program prints for --version.
func String(program string) string {
	return fmt.Sprintf("%s %s %s %s/%s", program, Get(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
