package watch

import (
	"os"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestOpenUevents: the real socket opens without privilege, and closing it ends a
// Read.
func TestOpenUevents(t *testing.T) {
	socket, err := OpenUevents()
	must.NoError(t, err)
	done := make(chan error)
	go func() {
		_, err := socket.Read(make([]byte, 1))
		done <- err
	}()
	must.NoError(t, socket.Close())
	test.ErrorIs(t, <-done, os.ErrClosed)
}
