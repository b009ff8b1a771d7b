package watch

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := fake{make(chan any)}
		opened := 0
		var reported []error
		signals := Signals(ctx, Options{
			Open:   func() (io.ReadCloser, error) { opened++; return s, nil },
			Report: func(err error) { reported = append(reported, err) },
		})
		expect := func(what string, want bool, within time.Duration) {
			t.Helper()
			start := time.Now()
			select {
			case <-signals:
				if !want {
					t.Errorf("%s: a signal after %v", what, time.Since(start))
				}
			case <-time.After(within):
				if want {
					t.Errorf("%s: no signal within %v", what, within)
				}
			}
		}
		expect("at the start", true, time.Millisecond)

		s.messages <- uevent("add", "/devices/virtual/net/veth0", "net")
		expect("an interface of a container", false, time.Minute)

		for range 50 {
			s.messages <- rxeAdd
			time.Sleep(10 * time.Millisecond)
		}
		expect("a burst", true, 200*time.Millisecond)
		expect("the rest of the burst", false, time.Minute)

		// A burst that does not end: a signal each second all the same.
		go func() {
			for range 350 {
				s.messages <- rxeAdd
				time.Sleep(10 * time.Millisecond)
			}
		}()
		for range 3 {
			expect("an endless burst", true, 1200*time.Millisecond)
		}
		time.Sleep(time.Minute)
		expect("its end", true, time.Millisecond)

		s.messages <- unix.ENOBUFS
		expect("an overflow", true, time.Second)
		s.messages <- errors.New("broken")
		expect("a broken source that is opened again", true, 2*time.Second)
		if opened != 2 || len(reported) != 1 {
			t.Errorf("opened %d times, reported %v", opened, reported)
		}
		cancel()
		close(s.messages)
		if _, ok := <-signals; ok {
			t.Error("a signal after the end")
		}
	})
}

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
