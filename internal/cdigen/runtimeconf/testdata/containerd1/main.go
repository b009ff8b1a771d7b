// Program containerd1 prints what containerd 1.7 makes of its configuration files: the section of the CRI plugin.
package main

import (
	"encoding/json"
	"os"

	"github.com/containerd/containerd/services/server/config"
)

func main() {
	c := &config.Config{Version: 1} // as cmd/containerd/command/config.go
	if err := config.LoadConfig(os.Args[1], c); err != nil {
		panic(err)
	}
	plugin := "io.containerd.grpc.v1.cri"
	if c.GetVersion() == 1 {
		plugin = "cri" // Config.Decode
	}
	section := c.Plugins[plugin]
	if err := json.NewEncoder(os.Stdout).Encode(section.ToMap()); err != nil {
		panic(err)
	}
}
