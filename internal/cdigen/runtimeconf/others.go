package runtimeconf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
)

// readDocker reads daemon.json, and the flags of dockerd (cmd/dockerd/daemon.go, loadDaemonCliConfig).
func (c *Config) readDocker(host Host, t runtimes.Target, user User) error {
	d, file := host.started("dockerd", "docker.service"), "/etc/docker/daemon.json"
	own, runs := host.running("dockerd", user.UID)
	if c.Rootless = user.UID != 0 && (runs || hasDockerFiles(host, user)); c.Rootless {
		d, user = own, user.of(own)
		file = path.Join(user.configHome(), "docker/daemon.json")
		if t.AtLeast(29) {
			c.Dirs = append(slices.Clone(c.Dirs), path.Join(user.configHome(), "cdi"))
			if user.RuntimeDir != "" {
				c.Dirs = append(c.Dirs, path.Join(user.RuntimeDir, "cdi"))
			}
		}
	}
	c.Main = last(d.args.values("--config-file"), file)
	text, err := host.read(c.Main)
	if err != nil {
		return err
	}
	var config struct {
		Features map[string]bool
		Dirs     []string `json:"cdi-spec-dirs"`
	}
	if len(strings.TrimSpace(string(text))) > 0 {
		if err := json.Unmarshal(text, &config); err != nil {
			return brokenf("%q is no JSON of dockerd (%w)", c.Main, err)
		}
	}
	features, flagDirs := d.args.values("--feature"), d.args.values("--cdi-spec-dir")
	const both = "%q has %s, and %s has the flag %s: dockerd takes a setting from one of them only; "
	switch { // daemon/config/config.go, findConfigurationConflicts
	case config.Features != nil && features != nil:
		return brokenf(both+"for CDI, add --feature cdi=true to the unit", c.Main, "features", d.from, "--feature")
	case config.Dirs != nil && flagDirs != nil:
		return brokenf(both+"name all directories by the flag", c.Main, "cdi-spec-dirs", d.from, "--cdi-spec-dir")
	}
	if on, ok := config.Features["cdi"]; ok {
		c.On, c.OnFile = on, c.Main
	}
	if config.Dirs != nil {
		c.Dirs, c.DirsFile = config.Dirs, c.Main
	}
	for _, feature := range features {
		if name, value, _ := strings.Cut(feature, "="); name == "cdi" {
			c.On, c.OnFile = value != "false", d.from
		}
	}
	if flagDirs != nil {
		c.Dirs, c.DirsFile = flagDirs, d.from
	}
	if len(c.Dirs) == 1 && c.Dirs[0] == "" { // this is how dockerd is told to read none
		c.On, c.OnFile, c.Dirs = false, c.DirsFile, nil
	}
	return nil
}

// of returns the user with the directories that a daemon of theirs was told.
func (u User) of(d daemon) User {
	u.Home, u.ConfigHome = cmp.Or(d.env["HOME"], u.Home), cmp.Or(d.env["XDG_CONFIG_HOME"], u.ConfigHome)
	u.RuntimeDir = cmp.Or(d.env["XDG_RUNTIME_DIR"], u.RuntimeDir)
	return u
}

// hasDockerFiles reports whether the user has files of a dockerd of their own.
func hasDockerFiles(host Host, user User) bool {
	if user.configHome() == "" {
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
	files, err := PodmanFiles(host, t, user)
	if err != nil {
		return err
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

// PodmanFiles lists the files of containers.conf that a release of podman reads, the last word last. Before 6, it reads
// all of them (pkg/config/new.go of containers/common).
func PodmanFiles(host fs.ReadLinkFS, t runtimes.Target, user User) ([]string, error) {
	const vendor, admin = "/usr/share/containers/containers.conf", "/etc/containers/containers.conf"
	places := []string{admin}
	if home := user.configHome(); home != "" {
		places = append(places, path.Join(home, "containers/containers.conf"))
	}
	if t.AtLeast(6) {
		return podman6Files(host, append([]string{vendor}, places...), user.UID)
	}
	files := []string{vendor}
	for _, name := range places {
		dropIns, err := Host{ReadLinkFS: host}.dropIns(name + ".d")
		if err != nil {
			return nil, err
		}
		files = slices.Concat(files, []string{name}, dropIns)
	}
	return files, nil
}

// podman6Files are those of podman 6 (storage/pkg/configfile/parse.go of containers/container-libs): one main file, of
// the last place that has it, and then the drop-ins of all places in the order of their names. Of two with one name,
// that of the later directory counts; links do not.
func podman6Files(host fs.ReadLinkFS, places []string, uid int) (files []string, err error) {
	byName := map[string]string{}
	for i, place := range places {
		if _, err := hostfs.Stat(host, place); err == nil {
			files = []string{place}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		dirs := []string{place + ".d"}
		if i < 2 { // those of the host, which has more for root or for users
			special := strings.TrimSuffix(place, ".conf") + ".rootful.conf.d"
			if uid > 0 {
				special = strings.Replace(special, "rootful", "rootless", 1)
				dirs = append(dirs, special, path.Join(special, strconv.Itoa(uid)))
			} else {
				dirs = append(dirs, special)
			}
		}
		for _, dir := range dirs {
			entries, err := hostfs.ReadDir(host, dir, hostfs.MaxEntries)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("list configuration: %w", err)
			}
			for _, e := range entries {
				if e.Type().IsRegular() && path.Ext(e.Name()) == ".conf" {
					byName[e.Name()] = path.Join(dir, e.Name())
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		files = append(files, byName[name])
	}
	return files, nil
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

// readCRIO reads crio.conf and its drop-ins, and the flags and variables of CRI-O. The last file that names directories
// wins.
func (c *Config) readCRIO(host Host) error {
	d := host.started("crio", "crio.service")
	c.Main = last(d.args.values("--config", "-c"), cmp.Or(d.env["CONTAINER_CONFIG"], CRIOFile))
	dir := last(d.args.values("--config-dir", "-d"), cmp.Or(d.env["CONTAINER_CONFIG_DIR"], CRIODropIns))
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
	dirs := strings.Join(d.args.values("--cdi-spec-dirs"), ",")
	if dirs = cmp.Or(dirs, d.env["CONTAINER_CDI_SPEC_DIRS"]); dirs != "" {
		c.Dirs, c.DirsFile = strings.Split(dirs, ","), d.from
		return nil
	}
	return d.unread
}
