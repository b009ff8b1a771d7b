package hook

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// States as runc 1.1.5 and crun 1.8.1 write them to a createRuntime hook.
const (
	runcBundle = "/run/containerd/io.containerd.runtime.v2.task/k8s.io/web"

	runcState = `{"ociVersion":"1.0.2-dev","id":"web","status":"creating","pid":4242,` +
		`"bundle":"/run/containerd/io.containerd.runtime.v2.task/k8s.io/web",` +
		`"annotations":{"io.kubernetes.cri.container-name":"c","io.kubernetes.cri.sandbox-uid":"u"}}`
	crioState = `{"annotations":{"io.kubernetes.cri-o.ContainerID":"web","io.kubernetes.pod.uid":"u",` +
		`"io.kubernetes.container.name":"c","a":[1]},"id":"web","status":"created"}`
	crunState = `{ "ociVersion": "1.0", "id": "web", "pid": 4242, "root": "/r", "bundle": "/b", "status": "created" }`
)

func TestParseState(t *testing.T) {
	pid := func(n int) *int { return &n }
	for _, tt := range []struct {
		name, in string
		want     State
	}{
		{"runc, containerd", runcState, State{"web", "creating", pid(4242), "u", "c", runcBundle}},
		{"crun", crunState, State{"web", "created", pid(4242), "", "", "/b"}},
		{"CRI-O", crioState, State{"web", "created", nil, "u", "c", ""}},
		{"annotations of another kind", `{"annotations":["u"],"id":"a"}`, State{ID: "a"}},
		{"annotations that are no text", `{"annotations":{"io.kubernetes.cri.sandbox-uid":7,` +
			`"io.kubernetes.cri.container-name":"c"}}`, State{Container: "c"}},
		{"a pod's annotations under containerd",
			strings.Replace(runcState, `"annotations":{`,
				`"annotations":{"io.kubernetes.pod.uid":"other","io.kubernetes.container.name":"other",`+
					`"io.kubernetes.cri-o.ContainerID":"guess",`, 1), State{"web", "creating", pid(4242), "u", "c", runcBundle}},
		{"the same, behind", `{"id":"web","annotations":{"io.kubernetes.cri.container-name":"c",` +
			`"io.kubernetes.cri.sandbox-uid":"u",` +
			`"io.kubernetes.pod.uid":"other","io.kubernetes.container.name":"other"}}`,
			State{ID: "web", PodUID: "u", Container: "c"}},
		{"an image's annotations under CRI-O", strings.Replace(crioState, `"a":[1]`,
			`"io.kubernetes.cri.sandbox-uid":"other","io.kubernetes.cri.container-name":"other"`, 1),
			State{"web", "created", nil, "u", "c", ""}},
		{"an ID of another container", `{"id":"web","annotations":{"io.kubernetes.cri-o.ContainerID":"db",` +
			`"io.kubernetes.pod.uid":"other"}}`, State{ID: "web"}},
		{"no ID", `{"annotations":{"io.kubernetes.cri-o.ContainerID":"","io.kubernetes.pod.uid":"other"}}`, State{}},
		{"a long annotation", `{"annotations":{"io.kubernetes.cri.sandbox-uid":"` + strings.Repeat("u", maxText+1) +
			`","io.kubernetes.cri.container-name":"` + strings.Repeat("c", maxText) + `"}}`,
			State{Container: strings.Repeat("c", maxText)}},
		{"keys in other case", `{"ID":"a","Pid":1,"STATUS":"b","Annotations":{"io.kubernetes.cri.sandbox-uid":"u"}}`,
			State{}},
		{"an annotation in other case", `{"annotations":{"IO.kubernetes.cri.sandbox-uid":"u"}}`, State{}},
		{"a long key", `{"annotations":{"` + strings.Repeat("k", 3*maxText) + `":1}}`, State{}},
		{"empty object", `{}`, State{}},
		{"null is absent", `{"id":null,"pid":null}`, State{}},
		{"the last of a repeated key counts", `{"pid":1,"pid":2}`, State{PID: pid(2)}},
		{"negative", `{"pid":-1}`, State{PID: pid(-1)}},
		{"escapes", `{"\u0069d":"a\"\\\/\u00e9\ud83d\ude00\ud83d"}`, State{ID: "a\"\\/é😀\uFFFD"}},
		{"unknown keys of any kind", `{"a":[1,-2.5e+3,{"pid":7},[]],"b":{},"c":true,"d":false,"pid":9}`, State{PID: pid(9)}},
		{"white space", "\n{\t\"pid\" : 1 }\r\n", State{PID: pid(1)}},
	} {
		got, err := parseState([]byte(tt.in))
		if err != nil || !sameState(got, tt.want) {
			t.Errorf("%s: ParseState(%s) = %+v, %v; want %+v", tt.name, tt.in, got, err, tt.want)
		}
	}
}

func sameState(a, b State) bool {
	samePID := (a.PID == nil) == (b.PID == nil) && (a.PID == nil || *a.PID == *b.PID)
	a.PID, b.PID = nil, nil
	return samePID && a == b
}

func TestParseStateErrors(t *testing.T) {
	for _, tt := range []struct{ in, inError string }{
		{``, "read OCI state from stdin: it is empty"},
		{`not json`, "invalid character 'o' in literal null"},
		{`[]`, "cannot unmarshal array"},
		{`null`, "it is null, and not an object"},
		{`{"pid":1`, "unexpected EOF"},
		{`{"pid":1} x`, `expected nothing after the object, found "x"`},
		{`{"pid":"1"}`, `key "pid": "1" is not an integer`},
		{`{"pid":1.5}`, `key "pid": 1.5 is not an integer`},
		{`{"pid":99999999999999999999}`, "is not an integer"},
		{`{"id":7}`, `key "id": 7 is not a string`},
		{`{"id":"` + "\n" + `"}`, "in string literal"},
		{`{"id":"\x"}`, "invalid character 'x' in string escape code"},
		{`{"id":"\u12"}`, "in \\u hexadecimal character escape"},
		{`{"id":"` + strings.Repeat("a", maxText+1) + `"}`, `key "id": longer than 4 KiB`},
		{`{"pid":` + strings.Repeat("1", 1000) + `}`, "is not an integer"},
		{`{"a":` + strings.Repeat("[", 10002), "exceeded max depth"},
	} {
		_, err := parseState([]byte(tt.in))
		test.ErrorContains(t, err, tt.inError, test.Sprintf("ParseState(%.40q)", tt.in))
	}
}

// FuzzParseState: a state that arrives byte by byte is the same as in one piece, and no key but its own in its own case
// says what the container is.
func FuzzParseState(f *testing.F) {
	for _, s := range []string{
		runcState, crunState, crioState, `{"annotations":[7]}`, `{}`, `{"pid":null}`, `{"pid":-0}`, `{"pid":1e3}`,
		`{"id":"\ud83d\u0041"}`, "{\"id\":\"\xff\"}", `{"a":[[],{"b":[1,2.5E-3]}],"pid":1}`,
		`{"pid":01}`, `{"a":tru}`, `{"a":1,}`,
		`{"PID":1}`, `{"id":"a"} `, `{"id":"a"}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseState(data)
		pieces, piecesErr := inPieces(data)
		// A state that is complete is not waited for: what comes later is not seen.
		if err == nil && (piecesErr != nil || !sameState(pieces, got)) {
			t.Fatalf("%q byte by byte: %+v, %v; in one piece: %+v", data, pieces, piecesErr, got)
		}
		if err == nil && got.PID != nil && !bytes.Contains(data, []byte("pid")) && !bytes.Contains(data, []byte(`\u`)) {
			t.Fatalf("ParseState(%q) = %+v", data, got)
		}
	})
}

// parseState reads a state as from a pipe that has all of it.
func parseState(data []byte) (State, error) {
	return readState(&stateReader{stdin: bytes.NewReader(data)})
}

// inPieces reads a state as from a pipe that has one byte at a time.
func inPieces(data []byte) (State, error) {
	return readState(&stateReader{stdin: iotest.OneByteReader(bytes.NewReader(data))})
}

// pipe is a pipe whose reading end is blocking, as a runtime's is.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	must.NoError(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	r.Fd() // makes it blocking
	return r, w
}

func TestReadStateEndsWithoutEndOfFile(t *testing.T) {
	fd, w := pipe(t)
	for _, part := range []string{runcState[:30], runcState[30:], "\n"} {
		if _, err := w.WriteString(part); err != nil {
			t.Fatal(err)
		}
	}
	st, err := ReadState(fd, time.Now().Add(time.Minute))
	if err != nil || *st.PID != 4242 {
		t.Fatalf("ReadState = %+v, %v", st, err)
	}
}

func TestReadStateInManyPieces(t *testing.T) {
	fd, w := pipe(t)
	big := `{"annotations":{"a":"` + strings.Repeat("}", 300<<10) + `"},` + runcState[1:]
	go func() { w.WriteString(big); w.Close() }()
	st, err := ReadState(fd, time.Now().Add(time.Minute))
	if err != nil || st.ID != "web" {
		t.Fatalf("ReadState = %+v, %v", st, err)
	}
}

// TestReadStateOfAnyAnnotations checks that a pod starts with any annotations that it may have. Runtimes escape "<" as
// six bytes. CRI-O has copies of the annotations, and escapes some copies twice. ReadState takes only a few times the
// memory of the state.
func TestReadStateOfAnyAnnotations(t *testing.T) {
	const most = 256 << 10 // of Kubernetes, for all annotations of a pod
	pod := strings.Repeat("<", most)
	copies := map[string]string{"a": pod}
	text, err := json.Marshal(copies)
	must.NoError(t, err)
	copies["io.kubernetes.cri-o.Annotations"] = string(text)
	copies["io.kubernetes.cri.sandbox-uid"] = "u"
	state, err := json.Marshal(map[string]any{"annotations": copies, "id": "web", "pid": 4242, "status": "creating"})
	must.NoError(t, err)
	must.GreaterEq(t, 3<<20, len(state), must.Sprintf("the state has only %d bytes", len(state)))
	fd, w := pipe(t)
	go func() { w.Write(state) }() // and it stays open
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	st, err := ReadState(fd, time.Now().Add(time.Minute))
	runtime.ReadMemStats(&after)
	if err != nil || st.ID != "web" || *st.PID != 4242 || st.PodUID != "u" {
		t.Errorf("ReadState = %+v, %v", st, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 6*uint64(len(state)) {
		t.Errorf("%d bytes of memory for a state of %d", used, len(state))
	}
}

func TestReadStateTimesOut(t *testing.T) {
	for name, sent := range map[string]string{"nothing": "", "half a state": runcState[:30]} {
		fd, w := pipe(t)
		w.WriteString(sent)
		start := time.Now()
		_, err := ReadState(fd, start.Add(50*time.Millisecond))
		test.ErrorIs(t, err, ErrStateTimeout, test.Sprintf("%s", name))
		test.GreaterEq(t, 50*time.Millisecond, time.Since(start), test.Sprintf("%s: gave up after", name))
	}
}

func TestReadStateIsBounded(t *testing.T) {
	fd, w := pipe(t)
	go func() {
		for chunk := strings.Repeat(" ", 64<<10); ; {
			if _, err := w.WriteString(chunk); err != nil {
				return
			}
		}
	}()
	_, err := ReadState(fd, time.Now().Add(time.Minute))
	must.ErrorContains(t, err, "more than 64 MiB", must.Sprint("ReadState of an endless stream"))
}

func TestReadStateEndOfFile(t *testing.T) {
	for sent, inError := range map[string]string{
		"":              "is empty",
		"{\"pid\":12":   "unexpected EOF",
		"pid is 12":     "invalid character 'p'",
		"{\"pid\":x}{":  "invalid character 'x'",
		"{\"pid\":1} {": "expected nothing after the object, found \"{\"",
	} {
		fd, w := pipe(t)
		w.WriteString(sent)
		w.Close()
		if _, err := ReadState(fd, time.Now().Add(time.Minute)); err == nil || !strings.Contains(err.Error(), inError) {
			t.Errorf("ReadState(%q): %v, want an error with %q", sent, err, inError)
		}
	}
	if _, err := ReadState((*os.File)(nil), time.Now().Add(50*time.Millisecond)); err == nil {
		t.Error("ReadState of no descriptor: no error")
	}
	dir, err := os.Open(t.TempDir())
	must.NoError(t, err)
	defer dir.Close()
	if _, err := ReadState(dir, time.Now().Add(time.Minute)); err == nil {
		t.Error("ReadState of a directory: no error")
	}
}
