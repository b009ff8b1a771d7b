package watch

import (
	"errors"
	"os"
	"testing"
)

// TestOpenUevents: the real socket opens without privilege, and closing it ends a
// Read.
func TestOpenUevents(t *testing.T) {
	socket, err := OpenUevents()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := socket.Read(make([]byte, 1))
		done <- err
	}()
	if err := socket.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
}
