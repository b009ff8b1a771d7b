package runtimeconf

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/gen/runtimes"
)

// readDocker reads daemon.json, and the flags of dockerd's unit (cmd/dockerd/daemon.go, loadDaemonCliConfig).
func (c *Config) readDocker(host Host, t runtimes.Target, user User) error {
	args := unitArgs(host, "docker.service")
	c.Main = last(args.values("--config-file"), "/etc/docker/daemon.json")
	if c.Rootless = rootlessDocker(host, user); c.Rootless {
		args, c.Main = nil, path.Join(user.configHome(), "docker/daemon.json")
		if t.AtLeast(29) {
			c.Dirs = slices.Concat(c.Dirs, []string{path.Join(user.configHome(), "cdi"), path.Join(user.RuntimeDir, "cdi")})
		}
	}
	text, err := host.read(c.Main)
	if err != nil {
		return err
	}
	var config struct {
		Features struct{ CDI *bool }
		Dirs     []string `json:"cdi-spec-dirs"`
	}
	if len(strings.TrimSpace(string(text))) > 0 {
		if err := json.Unmarshal(text, &config); err != nil {
			return brokenf("%q is no JSON of dockerd (%w)", c.Main, err)
		}
	}
	if on := config.Features.CDI; on != nil {
		c.On, c.OnFile = *on, c.Main
	}
	if config.Dirs != nil {
		c.Dirs, c.DirsFile = config.Dirs, c.Main
	}
	for _, feature := range args.values("--feature") {
		if name, value, _ := strings.Cut(feature, "="); name == "cdi" {
			c.On, c.OnFile = value != "false", "docker.service"
		}
	}
	if dirs := args.values("--cdi-spec-dir"); dirs != nil {
		c.Dirs, c.DirsFile = dirs, "docker.service"
	}
	if len(c.Dirs) == 1 && c.Dirs[0] == "" { // this is how dockerd is told to read none
		c.On, c.OnFile, c.Dirs = false, c.DirsFile, nil
	}
	return nil
}

// rootlessDocker reports whether the user runs a dockerd.
func rootlessDocker(host Host, user User) bool {
	if user.UID == 0 || user.configHome() == "" {
		return false
	}
	signs := []string{path.Join(user.configHome(), "docker/daemon.json"),
		path.Join(user.configHome(), "systemd/user/docker.service")}
	if user.RuntimeDir != "" {
		signs = append(signs, path.Join(user.RuntimeDir, "docker.sock"))
	}
	for _, name := range signs {
		if _, err := hostfs.Stat(host, name); err == nil {
			return true
		}
	}
	return false
}

// readPodman reads containers.conf, whose cdi_spec_dirs podman knows from 5.5 on (pkg/config/new.go of
// containers/common).
func (c *Config) readPodman(host Host, t runtimes.Target, user User) error {
	if !t.AtLeast(5, 5) {
		return nil
	}
	files := []string{"/usr/share/containers/containers.conf"}
	places := []string{"/etc/containers/containers.conf"}
	if home := user.configHome(); home != "" {
		places = append(places, path.Join(home, "containers/containers.conf"))
	}
	for _, name := range places {
		dropIns, err := host.dropIns(name + ".d")
		if err != nil {
			return err
		}
		files = slices.Concat(files, []string{name}, dropIns)
	}
	for _, name := range files {
		var config struct {
			Engine struct {
				Dirs []any `toml:"cdi_spec_dirs"`
			} `toml:"engine"`
		}
		text, err := host.read(name)
		if err != nil {
			return err
		}
		if err := decode(name, text, &config); err != nil {
			return err
		}
		dirs := config.Engine.Dirs
		if dirs == nil {
			continue
		}
		var before []string
		for _, d := range dirs { // {append=true} keeps the directories of earlier files
			if attributes, ok := d.(map[string]any); ok && attributes["append"] == true {
				before = c.Dirs
			}
		}
		c.Dirs, c.DirsFile = slices.Concat(before, texts(dirs)), name
	}
	return nil
}

// dropIns lists the files of a directory that end in .conf.
func (h Host) dropIns(dir string) ([]string, error) {
	names, err := h.names(dir, false)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, name := range names {
		if path.Ext(name) == ".conf" {
			files = append(files, path.Join(dir, name))
		}
	}
	return files, nil
}

// The files of CRI-O.
const (
	CRIOFile    = "/etc/crio/crio.conf"
	CRIODropIns = "/etc/crio/crio.conf.d"
)

// readCRIO reads crio.conf and its drop-ins, and the flags of CRI-O's unit. The last file that names directories wins.
func (c *Config) readCRIO(host Host) error {
	args := unitArgs(host, "crio.service")
	c.Main = last(args.values("--config", "-c"), CRIOFile)
	dir := last(args.values("--config-dir", "-d"), CRIODropIns)
	names, err := host.names(dir, false)
	if err != nil {
		return err
	}
	files := []string{c.Main}
	for _, name := range names {
		files = append(files, path.Join(dir, name))
	}
	for _, name := range files {
		text, err := host.read(name)
		if err != nil {
			return err
		}
		var config struct {
			CRIO struct {
				Runtime struct {
					Dirs []string `toml:"cdi_spec_dirs"`
				} `toml:"runtime"`
			} `toml:"crio"`
		}
		if err := decode(name, text, &config); err != nil {
			return err
		}
		if dirs := config.CRIO.Runtime.Dirs; dirs != nil {
			c.Dirs, c.DirsFile = dirs, name
		}
	}
	if dirs := args.values("--cdi-spec-dirs"); dirs != nil {
		c.Dirs, c.DirsFile = strings.Split(strings.Join(dirs, ","), ","), "crio.service"
	}
	return nil
}
