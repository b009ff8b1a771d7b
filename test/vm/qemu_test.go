package vm

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/image"
)

// fakeQEMU puts a script in QEMU's place. It finds the directory of the job in $job and
// says on the console what is given; n is the number of its start.
func fakeQEMU(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	text := `#!/bin/bash
for arg; do
	case $arg in
	local,id=job,*) job=${arg#*path=}; job=${job%%,*} ;;
	socket,id=console,*) exec >"${arg#*logfile=}" ;;
	esac
done
n=$(($(cat ` + dir + `/n 2>/dev/null) + 1)); echo $n >` + dir + "/n\n" + script
	must.NoError(t, os.WriteFile(filepath.Join(dir, qemu), []byte(text), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// What the machine's end means: the guest's word, a second try after the emulator's
// known failure, or an error with the end of the console.
func TestEnds(t *testing.T) {
	const result = `echo '{"exit":3,"boot":[]}' >$job/result.json; echo output >&3; echo talk >&4; exit 1`
	for _, c := range []struct {
		name, script    string
		code            int
		wantErr, wantIn string // in the error, in the progress
	}{
		{"a status", result, 3, "", ""},
		{"one panic", `[ $n -gt 1 ] || { echo "Oops: int3: 0000"; exit 1; }` + "\n" + result, 3, "", "starting it once more"},
		{"a panic of the first task", `[ $n -gt 1 ] || { echo "Attempted to kill the idle task!"; exit 0; }` + "\n" + result, 3, "", "flags"},
		{"two panics", `echo "Oops: int3: 0000"; exit 1`, 0, "known bug", "starting it once more"},
		{"another panic", `echo "Kernel panic - not syncing: no working init"; exit 1`, 0, "no working init", ""},
		{"a guest that could not be prepared", `echo '{"exit":125,"error":"shares: no such tag","boot":[]}' >$job/result.json`, 0, "shares: no such tag", ""},
		{"a bad command line", `echo "-M q36: unsupported machine type" >&2; exit 1`, 0, "unsupported machine type", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			fakeQEMU(t, c.script)
			var stdout, stderr, progress bytes.Buffer
			v := &VM{image: &image.Image{Dir: t.TempDir()}, progress: &progress}
			code, err := v.Run(t.Context(), Cmd{Argv: []string{"true"}, Stdout: &stdout, Stderr: &stderr})
			if code != c.code || (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("status %d, %v", code, err)
			}
			if (progress.Len() > 0) != (c.wantIn != "") || !strings.Contains(progress.String(), c.wantIn) {
				t.Errorf("progress: %q", &progress)
			}
			if err == nil && (stdout.String() != "output\n" || stderr.String() != "talk\n") {
				t.Errorf("output %q, %q", &stdout, &stderr)
			}
		})
	}
}
