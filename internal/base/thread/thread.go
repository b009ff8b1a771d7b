// Package thread runs functions on threads of their own, for what changes a thread and cannot be taken back: its
// network namespace, or its user.
package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Do runs f on a thread that ends with it: the Go runtime ends a thread if its goroutine exits while locked to it. f
// never runs on the main thread, because the main thread of a process cannot end. The runtime would keep it forever, in
// the network namespace of f, and so that namespace could not end either.
func Do(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			Do(f) // this goroutine occupies the main thread, so f runs on another one
			return
		}
		f()
	}()
	<-done
}
