package watch

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// uevent writes a message as the kernel does.
func uevent(action, devPath, subsystem string) string {
	return strings.Join([]string{action + "@" + devPath, "ACTION=" + action, "DEVPATH=" + devPath, "SUBSYSTEM=" + subsystem, "SEQNUM=4711", ""}, "\x00")
}

var rxeAdd = uevent("add", "/devices/virtual/infiniband/rxe0", "infiniband")

func TestParseUevent(t *testing.T) {
	for name, c := range map[string]struct {
		message  string
		ok       bool
		relevant bool
	}{
		"HCA":              {rxeAdd, true, true},
		"uverbs":           {uevent("remove", "/devices/pci0000:15/0000:15:01.0/0000:19:00.0/infiniband_verbs/uverbs0", "infiniband_verbs"), true, true},
		"umad":             {uevent("add", "/devices/virtual/infiniband_mad/umad0", "infiniband_mad"), true, true},
		"rdma_cm":          {uevent("add", "/devices/virtual/misc/rdma_cm", "misc"), true, true},
		"other misc":       {uevent("add", "/devices/virtual/misc/fuse", "misc"), true, false},
		"interface":        {uevent("add", "/devices/virtual/net/veth12", "net"), true, false},
		"no subsystem":     {"add@/devices/x\x00ACTION=add\x00", true, false},
		"udev":             {"libudev\x00\xfe\xed\xca\xfe", false, false},
		"empty":            {"", false, false},
		"no zero":          {"add@/devices/x", false, false},
		"relative path":    {"add@devices\x00", false, false},
		"no action":        {"@/devices\x00", false, false},
		"subsystem at end": {"change@/d\x00SUBSYSTEM=infiniband", true, true},
	} {
		u, ok := ParseUevent([]byte(c.message))
		if ok != c.ok || u.Relevant() != c.relevant {
			t.Errorf("%s: %+v, %v; want ok %v, relevant %v", name, u, ok, c.ok, c.relevant)
		}
	}
}

func FuzzParseUevent(f *testing.F) {
	f.Add([]byte(rxeAdd))
	f.Add([]byte("libudev\x00"))
	f.Fuzz(func(t *testing.T, message []byte) {
		if u, ok := ParseUevent(message); ok && (u.Action == "" || !strings.HasPrefix(u.DevPath, "/")) {
			t.Errorf("%q: %+v", message, u)
		}
	})
}

// source plays messages; an error in it is what Read returns.
type source struct{ messages chan any }

func (s source) Read(p []byte) (int, error) {
	switch m := (<-s.messages).(type) {
	case string:
		return copy(p, m), nil
	case error:
		return 0, m
	}
	return 0, os.ErrClosed // the channel was closed
}

func (s source) Close() error { return nil }

func TestSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := source{make(chan any)}
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
