// Program containerd2 prints what containerd 2.2 makes of its configuration files: the section of the CRI plugin.
package main

import (
	"context"
	"encoding/json"
	"maps"
	"os"

	"github.com/containerd/containerd/v2/cmd/containerd/server/config"
	"github.com/containerd/containerd/v2/version"
)

func main() {
	c := &config.Config{Version: version.ConfigVersion} // as cmd/containerd/command/config.go
	if err := config.LoadConfig(context.Background(), os.Args[1], c); err != nil {
		panic(err)
	}
	section, _ := c.Plugins["io.containerd.cri.v1.runtime"].(map[string]any)
	if c.Version < version.ConfigVersion { // configMigration of plugins/cri/runtime/plugin.go, which needs Kubernetes
		all := map[string]any{}
		old, _ := c.Plugins["io.containerd.grpc.v1.cri"].(map[string]any)
		maps.Copy(all, old)
		maps.Copy(all, section)
		section = all
	}
	if err := json.NewEncoder(os.Stdout).Encode(section); err != nil {
		panic(err)
	}
}
