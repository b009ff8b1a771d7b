package inside

import (
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/shoenig/test/must"
)

// LockedMemory is the front of a command line that gives the rest a soft and hard limit,
// as a runtime has it that was started with one.
func LockedMemory(limit string) []string { return []string{"prlimit", "--memlock=" + limit} }

// AsUser is the front of a command line for the ordinary user of the guest, without a
// login session, with the given limits of locked memory.
func AsUser(limit string) []string {
	return slices.Concat(LockedMemory(limit), []string{
		"setpriv", "--reuid=1000", "--regid=1000", "--init-groups", "--inh-caps=-all",
		"env", "--chdir=/home/user", "HOME=/home/user", "XDG_RUNTIME_DIR=/run/user/1000",
	})
}

// PrepareUser gives the user a runtime directory, and podman's image from an archive.
func PrepareUser(t *testing.T, archive string) {
	t.Helper()
	const dir = "/run/user/1000"
	must.NoError(t, errors.Join(os.MkdirAll("/run/user", 0o755), os.Mkdir(dir, 0o700)))
	must.NoError(t, os.Chown(dir, 1000, 1000))
	from, err := os.Open(archive)
	must.NoError(t, err)
	defer from.Close()
	to, err := os.Create("/home/user/tools.tar")
	must.NoError(t, err)
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	Must(t, append(AsUser("65536:65536"), "podman", "load", "--input", "tools.tar")...)
}
