package vm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ErrFailed is the cause with which a test that has failed ends the context of Run. Run then has the guest's kernel
// print its tasks before it ends QEMU. Run does the same for a guest that does not end in time.
var ErrFailed = errors.New("the test has failed")

// wantsDump reports whether a guest that was ended for this reason was to be seen before.
func wantsDump(cause error) bool {
	return errors.Is(cause, ErrFailed) || errors.Is(cause, ErrTimeout) || errors.Is(cause, errStuck)
}

// Names in a machine's directory, and QEMU's name of the guest's serial line.
const (
	consoleFile   = "console" // what the kernel has printed
	consoleSocket = "tty"     // the other end of the serial line
	monitorSocket = "qmp"
	consoleID     = "console"
)

// magicKeys are keys of sysrq, and how the kernel's answer to each begins: all levels to the console, backtraces of
// CPUs, timers, tasks that are blocked, all tasks, and the help, which marks the end.
var magicKeys = []struct{ key, answer string }{
	{"9", "Loglevel set to 9"},
	{"l", "Show backtrace of all active CPUs"},
	{"q", "Show clockevent devices"},
	{"w", "Show Blocked State"},
	{"t", "Show State"},
	{"h", "HELP : "},
}

// patience is how long the kernel may take for an answer. It prints some hundred tasks.
const patience = time.Minute

// dump returns what an observer outside sees of a guest: the threads of QEMU, and registers and interrupts of the CPUs.
// It has the guest's kernel print its tasks on the console. The guest's network and programs are not needed for that.
// A kernel that does not answer on its serial line gets an NMI, at which it prints a backtrace and ends.
func dump(dir string, pid int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "threads of QEMU:\n%s", threads(fmt.Sprintf("/proc/%d/task", pid)))
	m, err := openMonitor(filepath.Join(dir, monitorSocket))
	if err != nil {
		fmt.Fprintf(&out, "QEMU itself does not answer: %v\n", err)
		return out.String()
	}
	defer m.Close()
	m.describe(&out, "info status", "info registers -a", "info lapic", "info irq")
	err = m.askKernel(dir)
	m.describe(&out, "info lapic") // whether time goes on
	if err != nil {
		fmt.Fprintf(&out, "the guest's kernel gets an NMI, since its serial line is of no use: %v\n", err)
		if _, err := m.do("inject-nmi", nil); err != nil {
			fmt.Fprintln(&out, err)
		}
		if err := awaitText(filepath.Join(dir, consoleFile), "Kernel Offset"); err != nil {
			fmt.Fprintln(&out, err)
		}
	}
	return out.String()
}

// describe writes what QEMU knows of the guest.
func (m *monitor) describe(to io.Writer, commands ...string) {
	for _, command := range commands {
		said, err := m.human(command)
		if err != nil {
			said = err.Error()
		}
		fmt.Fprintf(to, "%s:\n%s\n", command, strings.ReplaceAll(said, "\r", ""))
	}
}

// askKernel sends the magic keys to the guest's serial line, each after a break, and waits for the answers.
func (m *monitor) askKernel(dir string) error {
	line, err := net.Dial("unix", filepath.Join(dir, consoleSocket))
	if err != nil {
		return fmt.Errorf("connect to the serial line: %w", err)
	}
	defer line.Close()
	go io.Copy(io.Discard, line) // the guest waits for a reader
	for _, k := range magicKeys {
		if err := m.SetDeadline(time.Now().Add(monitorTimeout)); err != nil {
			return err
		}
		if _, err := m.do("chardev-send-break", map[string]any{"id": consoleID}); err != nil {
			return err
		}
		if _, err := io.WriteString(line, k.key); err != nil {
			return fmt.Errorf("write to the serial line: %w", err)
		}
		if err := awaitText(filepath.Join(dir, consoleFile), k.answer); err != nil {
			return err
		}
	}
	return nil
}

// awaitText waits until a file has a text.
func awaitText(path, text string) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		said, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Contains(said, []byte(text)) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the console does not say %q within %s", text, patience)
		}
	}
}

// threads are name, state, processor time and system call of each thread of a process.
func threads(tasks string) string {
	var out strings.Builder
	stats, _ := filepath.Glob(filepath.Join(tasks, "*", "stat")) // the pattern is well-formed
	for _, stat := range stats {
		said, err := os.ReadFile(stat)
		_, after, _ := strings.Cut(string(said), "(")
		name, after, _ := strings.Cut(after, ") ")
		fields := strings.Fields(after)
		if err != nil || len(fields) < 13 {
			continue // it has ended meanwhile
		}
		fmt.Fprintf(&out, "%s: state %s, ticks %s user %s system", name, fields[0], fields[11], fields[12])
		for _, file := range []string{"wchan", "syscall", "stack"} {
			if said, err := os.ReadFile(filepath.Join(filepath.Dir(stat), file)); err == nil {
				fmt.Fprintf(&out, ", %s %s", file, bytes.TrimSpace(said))
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}
