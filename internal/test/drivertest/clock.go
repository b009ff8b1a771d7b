package drivertest

import (
	"sync"
	"time"
	"unsafe"
)

// Clock is the time of a node whose clock somebody sets, as NTP does after a boot.
type Clock struct {
	mu  sync.Mutex
	off time.Duration
}

// Now is time.Now on that node.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Jumped(time.Now(), c.off)
}

// Jump sets the clock ahead, or back.
func (c *Clock) Jump(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += by
}

// Jumped returns a time as time.Now would have returned it after a jump of the wall clock, in whole
// seconds: what it shows is another hour, what it measures is the same. There is no other
// way to make such a time but to know how the standard library keeps it (time.Time).
func Jumped(t time.Time, by time.Duration) time.Time {
	const hasMonotonic, secondShift = 1 << 63, 30
	wall := (*uint64)(unsafe.Pointer(&t))
	if *wall&hasMonotonic == 0 {
		panic("the time has no monotonic reading")
	}
	*wall += uint64(int64(by/time.Second)) << secondShift
	if *wall&hasMonotonic == 0 {
		panic("the jump leaves the range of the wall clock")
	}
	return t
}
