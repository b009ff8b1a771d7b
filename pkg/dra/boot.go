package dra

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
)

// bootIDFile holds a random number that the kernel makes at each boot. It is the
// node's also inside a container.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

func readBoot() (claimstore.Boot, error) {
	id, err := os.ReadFile(bootIDFile)
	if err != nil {
		return claimstore.Boot{}, fmt.Errorf("read the boot ID: %w", err)
	}
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return claimstore.Boot{}, fmt.Errorf("read the time since boot: %w", err)
	}
	return claimstore.Boot{ID: strings.TrimSpace(string(id)), Time: time.Now().Add(-time.Duration(up.Nano()))}, nil
}
