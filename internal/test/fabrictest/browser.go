package fabrictest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// browser is a Chromium with one tab. Calls and answers go through two pipes, each as JSON with a zero byte
// behind it.
type browser struct {
	testing.TB
	to       *os.File
	from     *os.File
	buffered *bufio.Reader
	tab      string
	log      string // the file of its messages
	calls    int
	loaded   bool
	requests []string // URLs that the tab has asked for since open
}

// patience bounds the wait for one message of the browser, and for its end.
const patience = time.Minute

// program returns the path of the browser.
func program(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	needs.Missing(t, errors.New("needs chromium or google-chrome: run hack/install-packages.sh proof on Debian, "+
		"or install google-chrome"))
	return ""
}

// start starts the browser, which runs no script of a page. It ends with the test.
func start(t testing.TB) *browser {
	t.Helper()
	profile, err := os.MkdirTemp("", "browser-")
	must.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(profile) }) // fails while a child of the browser still writes there
	cmd := exec.Command(program(t), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--disable-background-networking", "--disable-breakpad", "--remote-debugging-pipe",
		"--user-data-dir="+profile, "about:blank")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(profile, "log"))
	must.NoError(t, err)
	cmd.Stderr = log
	in, to, err := os.Pipe()
	must.NoError(t, err)
	from, out, err := os.Pipe()
	must.NoError(t, err)
	cmd.ExtraFiles = []*os.File{in, out}
	must.NoError(t, cmd.Start())
	must.NoError(t, errors.Join(in.Close(), out.Close(), log.Close()))
	b := &browser{TB: t, to: to, from: from, buffered: bufio.NewReader(from), log: log.Name()}
	t.Cleanup(func() {
		// The browser ends when its pipe does. If it hangs, it is killed with its children.
		_ = to.Close()
		hung := time.AfterFunc(patience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		// Its exit status tells nothing of the page.
		_ = cmd.Wait()
		hung.Stop()
		_ = from.Close()
	})
	var target struct{ TargetID, SessionID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.tab = target.SessionID
	b.call("Page.enable", nil, nil)
	b.call("Network.enable", nil, nil)
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	return b
}

// message is an answer or an event.
type message struct {
	ID     int
	Method string
	Params struct {
		Request struct{ URL string }
	}
	Result, Error json.RawMessage
}

// call calls a method, and decodes its result unless that is nil.
func (b *browser) call(method string, params map[string]any, result any) {
	b.Helper()
	b.calls++
	request := map[string]any{"id": b.calls, "method": method, "params": params}
	if b.tab != "" {
		request["sessionId"] = b.tab
	}
	data, err := json.Marshal(request)
	must.NoError(b, err)
	_, err = b.to.Write(append(data, 0))
	must.NoError(b, err)
	for {
		m := b.read()
		if m.ID != b.calls {
			continue
		}
		must.Eq(b, "", string(m.Error), must.Sprint(method))
		if result != nil {
			must.NoError(b, json.Unmarshal(m.Result, result))
		}
		return
	}
}

// read reads a message, and keeps what an event tells.
func (b *browser) read() (m message) {
	b.Helper()
	must.NoError(b, b.from.SetReadDeadline(time.Now().Add(patience)))
	data, err := b.buffered.ReadBytes(0)
	if err != nil {
		said, _ := os.ReadFile(b.log) // without it, the failure is still one
		b.Fatalf("read what the browser answers: %v\n%s", err, said)
	}
	must.NoError(b, json.Unmarshal(bytes.TrimSuffix(data, []byte{0}), &m))
	switch m.Method {
	case "Page.loadEventFired":
		b.loaded = true
	case "Network.requestWillBeSent":
		b.requests = append(b.requests, m.Params.Request.URL)
	}
	return m
}

// open shows a page, and waits until it is loaded.
func (b *browser) open(address string, v view) {
	b.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": v.width, "height": v.height, "deviceScaleFactor": 1, "mobile": v.width < 700,
	}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]any{{"name": "prefers-color-scheme", "value": v.scheme}},
	}, nil)
	b.loaded, b.requests = false, nil
	b.call("Page.navigate", map[string]any{"url": address}, nil)
	for !b.loaded {
		b.read()
	}
}

// evaluate decodes the value of an expression.
func (b *browser) evaluate(expression string, value any) {
	b.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer)
	must.Eq(b, "", string(answer.ExceptionDetails), must.Sprint(expression))
	must.NoError(b, json.Unmarshal(answer.Result.Value, value))
}

// picture writes what the view shows to a file.
func (b *browser) picture(file string) {
	b.Helper()
	var shot struct{ Data []byte }
	b.call("Page.captureScreenshot", nil, &shot)
	must.NoError(b, os.WriteFile(file, shot.Data, 0o644))
}
