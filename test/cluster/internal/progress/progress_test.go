package progress

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

func TestLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := New(&out)
		must.NoError(t, l.Long("build it", func() error { time.Sleep(20 * time.Second); return nil }))
		want := `[   0.0s] build it ...
[  15.0s] build it: still at it after 15s
[  20.0s] build it: done in 20.0s
`
		test.Eq(t, want, out.String(), test.Sprintf("got:\n%swant", &out))
	})
}

func TestLongFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		broken := errors.New("broken")
		test.ErrorIs(t, New(&out).Long("build it", func() error { return broken }), broken)
		test.Eq(t, "[   0.0s] build it ...\n", out.String(), test.Sprint("the caller tells of the error"))
	})
}

func TestNil(t *testing.T) {
	var l *Log
	l.Step("nobody listens")
	test.NoError(t, l.Long("nor here", func() error { return nil }))
}
