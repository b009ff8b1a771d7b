package userspace

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// maxLinks is the kernel's limit of symbolic links in one path.
const maxLinks = 40

// resolve follows the symbolic links of a path within root, as a process that has
// root as its / would: an absolute target starts there again, and .. ends there.
// Where a component does not exist, it returns the path with the rest unresolved,
// which is the file a container runtime would create, and an error that is
// fs.ErrNotExist. Names are fs names, without a leading slash.
func resolve(root fs.ReadLinkFS, name string) (string, error) {
	done, rest := ".", strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		info, err := root.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return path.Join(append([]string{next}, rest...)...), fmt.Errorf("resolve /%s: /%s: %w", name, next, fs.ErrNotExist)
		}
		if err != nil {
			return "", fmt.Errorf("resolve /%s: %w", name, err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("resolve /%s: more than %d symbolic links", name, maxLinks)
		}
		target, err := root.ReadLink(next)
		if err != nil {
			return "", fmt.Errorf("resolve /%s: %w", name, err)
		}
		if path.IsAbs(target) {
			done = "."
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done, nil
}

// linkerName returns the path of a library with the links of its directory
// resolved and its own name kept: /lib64/libibverbs.so.1 is
// usr/lib64/libibverbs.so.1. The name outlives a minor upgrade of the package; the
// file that it leads to today does not.
func linkerName(root fs.ReadLinkFS, name string) (string, error) {
	dir, err := resolve(root, path.Dir(name))
	if err != nil {
		return "", err
	}
	return path.Join(dir, path.Base(name)), nil
}
