package hostfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// A program that others than root can replace is refused, whatever way they have to do so.
func TestCheckRootOnly(t *testing.T) {
	needs.Root(t, "changing owners")
	const user = 4711
	for name, c := range map[string]struct {
		change func(dir string) error
		weak   []string
	}{
		"as it should be": {func(string) error { return nil }, nil},
		"file of a user": {func(d string) error { return os.Chown(d+"/opt/bin/hook", user, 0) },
			[]string{"/opt/bin/hook"}},
		"file for a group": {func(d string) error { return os.Chmod(d+"/opt/bin/hook", 0o775) },
			[]string{"/opt/bin/hook"}},
		"file for everyone": {func(d string) error { return os.Chmod(d+"/opt/bin/hook", 0o757) },
			[]string{"/opt/bin/hook"}},
		"directory of a user": {func(d string) error { return os.Chown(d+"/opt/bin", user, 0) }, []string{"/opt/bin"}},
		"parent of a user":    {func(d string) error { return os.Chown(d+"/opt", user, 0) }, []string{"/opt"}},
		"parent for a group":  {func(d string) error { return os.Chmod(d+"/opt", 0o775) }, []string{"/opt"}},
		"root directory":      {func(d string) error { return os.Chmod(d, 0o777) }, []string{"/"}},
		"sticky directory":    {func(d string) error { return os.Chmod(d+"/opt", 0o777|os.ModeSticky) }, nil},
		"a user's file in a sticky directory": {func(d string) error {
			return errors.Join(os.Chmod(d+"/opt/bin", 0o777|os.ModeSticky), os.Chown(d+"/opt/bin/hook", user, 0))
		}, []string{"/opt/bin/hook"}},
		"directory of a link": {func(d string) error { return os.Chmod(d+"/usr", 0o777) }, []string{"/usr"}},
		"a user's link in a sticky directory": {func(d string) error {
			return errors.Join(os.Chmod(d+"/usr", 0o777|os.ModeSticky), os.Lchown(d+"/usr/hook", user, 0))
		}, []string{"/usr/hook"}},
		"both": {func(d string) error { return errors.Join(os.Chown(d+"/opt", user, 0), os.Chmod(d+"/usr", 0o777)) },
			[]string{"/usr", "/opt"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			err := errors.Join(os.MkdirAll(dir+"/opt/bin", 0o755), os.Mkdir(dir+"/usr", 0o755),
				os.WriteFile(dir+"/opt/bin/hook", nil, 0o755), os.Symlink("/opt/bin/hook", dir+"/usr/hook"))
			for _, made := range []string{"", "/opt", "/opt/bin", "/opt/bin/hook", "/usr"} {
				err = errors.Join(err, os.Chmod(filepath.Join(dir, made), 0o755)) // whatever the umask
			}
			must.NoError(t, errors.Join(err, c.change(dir)))
			weak, err := Weaknesses(DirFS(dir), "/usr/hook")
			must.NoError(t, err)
			var paths []string
			for _, w := range weak {
				paths = append(paths, w.Path)
			}
			test.SliceEqOp(t, c.weak, paths, test.Sprint("weak"))
			if err := CheckRootOnly(DirFS(dir), "/usr/hook"); errors.Is(err, ErrReplaceable) != (c.weak != nil) {
				t.Errorf("CheckRootOnly says %v", err)
			}
		})
	}
	test.ErrorIs(t, CheckRootOnly(DirFS(t.TempDir()), "/none"), os.ErrNotExist,
		test.Sprint("of a file that is not there"))
}
