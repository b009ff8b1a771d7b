package claimstore

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bootIDFile holds a random number that the kernel makes at each boot. A container reads the
// node's number too.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// Boot identifies a boot of the node.
type Boot struct {
	ID   string    // /proc/sys/kernel/random/boot_id
	Time time.Time // of the boot
}

// ReadBoot returns the current boot.
func ReadBoot() (Boot, error) {
	id, err := os.ReadFile(bootIDFile)
	if err != nil {
		return Boot{}, fmt.Errorf("read the boot ID: %w", err)
	}
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return Boot{}, fmt.Errorf("read the time since boot: %w", err)
	}
	return Boot{ID: strings.TrimSpace(string(id)), Time: time.Now().Add(-time.Duration(up.Nano()))}, nil
}
