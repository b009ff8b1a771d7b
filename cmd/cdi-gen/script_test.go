package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// TestScripts runs the sessions of testdata/script. Their commands are those of package testscript, and these:
//
//	host MACHINE [DIRECTORY]   makes $WORK/host, or another directory, the root of a fixture machine: it gets a sys alone
//	cdi-gen ARGUMENT...        runs the program; $ROOT is --host-root=$WORK/host
//	run PROGRAM ARGUMENT...    runs another program, in the directory and the environment of the script
//
// What the last two print goes to $WORK/session, with exit codes other than 0. Lines of standard error begin with "! ".
// A script ends by a comparison of the whole session with what it should be, which -update writes.
func TestScripts(t *testing.T) {
	self, err := os.Executable()
	must.NoError(t, err)
	checkout, err := filepath.Abs("../..")
	must.NoError(t, err)
	nodes := unix.Mknod(filepath.Join(t.TempDir(), "node"), unix.S_IFCHR, int(unix.Mkdev(1, 11)))
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *update, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("ROOT", "--host-root="+e.WorkDir+"/host")
			e.Setenv("SELF", self) // cdi-gen as a process of its own
			e.Setenv("CHECKOUT", checkout)
			e.Setenv(asProgram, "1")
			return nil
		},
		Condition: func(string) (bool, error) { // [mknod] is the only one
			if nodes != nil && needs.CI() {
				return false, nodes
			}
			return nodes == nil, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"host": func(ts *testscript.TestScript, _ bool, args []string) {
				sys := filepath.Join(ts.MkAbs(append(args, "host")[1]), "sys")
				ts.Check(errors.Join(os.RemoveAll(sys), os.MkdirAll(filepath.Dir(sys), 0o755),
					os.Symlink(filepath.Join(host(t, args[0]), "sys"), sys)))
			},
			"cdi-gen": func(ts *testscript.TestScript, _ bool, args []string) {
				var stdout, stderr bytes.Buffer
				code := run(t.Context(), args, io.MultiWriter(&stdout, ts.Stdout()), &stderr)
				record(ts, "cdi-gen", args, code, stdout.String(), stderr.String())
			},
			"run": func(ts *testscript.TestScript, _ bool, args []string) {
				code := 0
				err := ts.Exec(args[0], args[1:]...)
				if exit, ok := errors.AsType[*exec.ExitError](err); ok {
					code, err = exit.ExitCode(), nil
				}
				ts.Check(err)
				name := strings.Replace(args[0], self, "cdi-gen", 1)
				record(ts, name, args[1:], code, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
			},
		},
	})
}

// record adds a program's run to the session.
func record(ts *testscript.TestScript, name string, args []string, code int, stdout, stderr string) {
	var b strings.Builder
	fmt.Fprintf(&b, "$ %s %s\n%s", name, strings.Join(args, " "), stdout)
	for line := range strings.Lines(stderr) {
		b.WriteString("! " + line)
	}
	if code != exitOK {
		fmt.Fprintf(&b, "exit code %d\n", code)
	}
	work := ts.Getenv("WORK")
	session, err := os.OpenFile(filepath.Join(work, "session"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = session.WriteString(strings.ReplaceAll(b.String(), work, "$WORK"))
		err = errors.Join(err, session.Close())
	}
	ts.Check(err)
}
