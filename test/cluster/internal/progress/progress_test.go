package progress

import (
	"bytes"
	"errors"
	"regexp"
	"testing"
	"testing/synctest"
	"time"
)

func TestLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := New(&out)
		if err := l.Long("build it", func() error { time.Sleep(20 * time.Second); return nil }); err != nil {
			t.Fatal(err)
		}
		want := `[   0.0s] build it ...
[  15.0s] build it: still at it after 15s
[  20.0s] build it: done in 20.0s
`
		if out.String() != want {
			t.Errorf("got:\n%swant:\n%s", &out, want)
		}
	})
}

func TestLongFails(t *testing.T) {
	var out bytes.Buffer
	broken := errors.New("broken")
	if err := New(&out).Long("build it", func() error { return broken }); err != broken {
		t.Errorf("got %v", err)
	}
	if !regexp.MustCompile(`^\[ +0\.0s\] build it \.\.\.\n$`).MatchString(out.String()) {
		t.Errorf("got %q: the caller tells of the error", &out)
	}
}

func TestNil(t *testing.T) {
	var l *Log
	l.Step("nobody listens")
	if err := l.Long("nor here", func() error { return nil }); err != nil {
		t.Error(err)
	}
}
