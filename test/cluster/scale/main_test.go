package scale

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	"k8s.io/klog/v2"
)

// report is the directory whose drivers.md and placement.md get the results, empty for standard output alone.
var report = flag.String("report", "", "`DIRECTORY` of drivers.md and placement.md, which get the results")

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(&bytes.Buffer{})
	os.Exit(m.Run())
}

// The comments around results in a document.
const begin, end = "<!-- begin of what the benchmark writes -->\n", "<!-- end -->\n"

// publish prints results, and puts them into a document in place of earlier ones.
func publish(t testing.TB, document, text string) {
	t.Helper()
	fmt.Print("\n" + text)
	if *report == "" {
		return
	}
	file := *report + "/" + document
	data, err := os.ReadFile(file)
	must.NoError(t, err)
	before, rest, found := strings.Cut(string(data), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("replace the results in %q: it has no lines %q and %q", file, begin, end)
	}
	must.NoError(t, os.WriteFile(file, []byte(before+begin+"\n"+text+"\n"+end+after), 0o644))
}

// machine names the machine that measures: processors, kernel and program.
func machine(t testing.TB) string {
	t.Helper()
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	must.NoError(t, err)
	info, err := os.ReadFile("/proc/cpuinfo")
	must.NoError(t, err)
	model, processors := "unknown processor", 0
	for line := range strings.Lines(string(info)) {
		switch key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) {
		case "model name":
			model = strings.TrimSpace(value)
		case "processor":
			processors++
		}
	}
	return fmt.Sprintf("%d processors (%s), Linux %s", processors, model, strings.TrimSpace(string(release)))
}
