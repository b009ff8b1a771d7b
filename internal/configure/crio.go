package configure

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/runtimes"
)

const (
	crioFile    = "/etc/crio/crio.conf"
	crioDropIns = "/etc/crio/crio.conf.d"
	crioRestart = "systemctl restart crio"
	// crioOurs is the drop-in. CRI-O reads drop-ins by name, and the last one wins.
	crioOurs   = crioDropIns + "/99-cdi-gen.conf"
	crioHeader = "# Written by cdi-gen configure crio; cdi-gen configure crio --undo removes it.\n"
)

// planCRIO plans a drop-in. CRI-O reads specs without the setting, unless its configuration names other directories.
func planCRIO(root string, target runtimes.Target) (*Plan, error) {
	dirs, from, err := crioDirs(root)
	if err != nil {
		return nil, err
	}
	for _, dir := range target.Dirs {
		if from == "" || slices.Contains(dirs, dir) || dir == "/var/run/cdi" && slices.Contains(dirs, "/run/cdi") {
			return &Plan{Notes: []string{"CRI-O needs no change: it reads CDI specs from " +
				list(use(dirs, target.Dirs))}}, nil
		}
	}
	f, old, err := load(root, crioOurs)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(crioHeader + "[crio.runtime]\ncdi_spec_dirs = [\n")
	for _, dir := range append(slices.Clone(dirs), target.Dirs...) {
		fmt.Fprintf(&b, "  %q,\n", dir)
	}
	b.WriteString("]\n")
	return &Plan{Path: crioOurs, Old: old, New: []byte(b.String()), Restart: crioRestart, file: f, dropIn: true,
		Notes: []string{from + " names other directories for CDI specs: " + list(dirs)}}, nil
}

func use(configured, standard []string) []string {
	if len(configured) > 0 {
		return configured
	}
	return standard
}

func list(dirs []string) string { return strings.Join(dirs, " and ") }

// crioDirs returns the configured directories of specs, and the last file that names them, "" for none.
func crioDirs(root string) (dirs []string, from string, err error) {
	host := hostfs.DirFS(root)
	files := []string{crioFile}
	entries, err := hostfs.ReadDir(host, crioDropIns)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("list drop-ins: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			files = append(files, path.Join(crioDropIns, e.Name()))
		}
	}
	for _, name := range files {
		_, text, err := load(root, name)
		if err != nil {
			return nil, "", err
		}
		var config struct {
			CRIO struct {
				Runtime struct {
					Dirs []string `toml:"cdi_spec_dirs"`
				} `toml:"runtime"`
			} `toml:"crio"`
		}
		if err := toml.Unmarshal(text, &config); err != nil {
			return nil, "", refusef("%q is no TOML (%w); CRI-O would not start with it: repair it first", name, err)
		}
		if config.CRIO.Runtime.Dirs != nil {
			dirs, from = config.CRIO.Runtime.Dirs, name
		}
	}
	return dirs, from, nil
}

// undoCRIO removes the drop-in, if it is ours.
func undoCRIO(root string) (*Undo, error) {
	f, old, err := load(root, crioOurs)
	if err != nil || old == nil {
		return &Undo{}, err
	}
	if !bytes.HasPrefix(old, []byte(crioHeader)) {
		return nil, refusef("%q is not as cdi-gen writes it: remove it yourself", crioOurs)
	}
	return &Undo{Path: crioOurs, Old: old, Restart: crioRestart, file: f}, nil
}
