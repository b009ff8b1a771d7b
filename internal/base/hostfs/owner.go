package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Weakness is a file or directory that allows users other than root to replace a program.
type Weakness struct {
	Path   string // absolute, on the host
	Reason string // "is owned by user 1000", "can be written by its group"
	Owner  bool   // the remedy is another owner; otherwise another mode
}

// ErrReplaceable is in the error of CheckRootOnly if users other than root can replace the file.
var ErrReplaceable = errors.New("others than root can replace it, and it would run as root")

// CheckRootOnly returns an error with ErrReplaceable unless only the user root can replace a file. root must own the
// file, and each directory and link on the path to it, including the paths of link targets. Nobody else may have write
// permission for them. Directories with the sticky bit are allowed: others can add files there, but not replace root's.
func CheckRootOnly(root fs.ReadLinkFS, name string) error {
	weak, err := Weaknesses(root, name)
	if err != nil || len(weak) == 0 {
		return err
	}
	var reasons, fixes []string
	for _, w := range weak {
		reasons = append(reasons, fmt.Sprintf("%q %s", w.Path, w.Reason))
		fixes = append(fixes, w.Remedy())
	}
	return fmt.Errorf("%q: %w: %s; move it to a directory that only root can write to, such as /usr/bin, or: %s",
		name, ErrReplaceable, strings.Join(reasons, ", "), strings.Join(fixes, " && "))
}

// Remedy returns the command that removes the weakness.
func (w Weakness) Remedy() string {
	if w.Owner {
		return "chown -h root " + w.Path
	}
	return "chmod go-w " + w.Path
}

// Weaknesses returns the findings of CheckRootOnly, from the root directory on.
func Weaknesses(root fs.ReadLinkFS, name string) ([]Weakness, error) {
	var weak []Weakness
	visit := func(at string, info fs.FileInfo) {
		for _, w := range judge(path.Join("/", at), info) {
			if !slices.Contains(weak, w) {
				weak = append(weak, w)
			}
		}
	}
	top, err := root.Lstat(".")
	if err != nil {
		return nil, OnHost("/", err)
	}
	visit(".", top)
	_, err = walk{root: root, visit: visit}.to(name)
	return weak, err
}

// ClosedTo returns what keeps users other than root from a file, "" for nothing: a directory on the way to it that not
// everybody may search, or the file itself if its mode lacks bits of want for others. mode is that of the result.
func ClosedTo(root fs.ReadLinkFS, name string, want fs.FileMode) (closed string, mode fs.FileMode, err error) {
	visit := func(at string, info fs.FileInfo) {
		need := want
		if info.IsDir() {
			need = 0o001
		}
		if link := info.Mode()&fs.ModeSymlink != 0; !link && closed == "" && info.Mode().Perm()&need != need {
			closed, mode = path.Join("/", at), info.Mode()
		}
	}
	_, err = walk{root: root, visit: visit}.to(name)
	return closed, mode, err
}

// judge returns the weaknesses of one component. It ignores the mode of a link, which has no effect. It checks the
// owner of a link, who can replace it even in a directory with the sticky bit.
func judge(at string, info fs.FileInfo) (weak []Weakness) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil // a file system that has no owners
	}
	if stat.Uid != 0 {
		weak = append(weak, Weakness{at, fmt.Sprintf("is owned by user %d", stat.Uid), true})
	}
	mode := info.Mode()
	sticky := mode.IsDir() && mode&fs.ModeSticky != 0
	switch {
	case mode&fs.ModeSymlink != 0 || sticky:
	case mode&0o002 != 0:
		weak = append(weak, Weakness{at, "can be written by everyone", false})
	case mode&0o020 != 0:
		weak = append(weak, Weakness{at, fmt.Sprintf("can be written by its group %d", stat.Gid), false})
	}
	return weak
}
