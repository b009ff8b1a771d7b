package inside

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// Netdevsim is the kernel's simulated network device, whose firmware has the health reporter fw.
type Netdevsim struct {
	// Netdev is its interface.
	Netdev string
	t      *testing.T
}

// NetdevsimDevice is how devlink calls the device.
const NetdevsimDevice = "netdevsim1"

// NewNetdevsim makes the device until the test ends.
func NewNetdevsim(t *testing.T) *Netdevsim {
	t.Helper()
	Must(t, "modprobe", "netdevsim")
	d := &Netdevsim{t: t}
	if _, err := os.Stat("/sys/kernel/debug/netdevsim"); err != nil {
		Must(t, "mount", "-t", "debugfs", "debugfs", "/sys/kernel/debug")
	}
	d.write("/sys/bus/netdevsim/new_device", "1 1")
	t.Cleanup(func() {
		d.write("/sys/bus/netdevsim/del_device", "1")
		Eventually(t, "the module goes", time.Minute, func() error {
			if r := Run("modprobe", "-r", "netdevsim"); r.Code != 0 {
				return errors.New(r.Out)
			}
			return nil
		})
	})
	Eventually(t, "an interface of "+NetdevsimDevice, time.Minute, func() error {
		names, err := os.ReadDir("/sys/bus/netdevsim/devices/" + NetdevsimDevice + "/net")
		if err == nil && len(names) > 0 {
			d.Netdev = names[0].Name()
		}
		return err
	})
	Must(t, "ip", "link", "set", d.Netdev, "up")
	return d
}

// Break brings the firmware into the state error, as if its recovery failed.
func (d *Netdevsim) Break() {
	d.t.Helper()
	d.health("fail_recover", "Y")
	// The kernel passes on the failure of the recovery.
	_ = os.WriteFile(d.healthFile("break_health"), []byte("broken"), 0)
	r := Run("devlink", "health", "show", "netdevsim/"+NetdevsimDevice, "reporter", "fw")
	must.StrContains(d.t, r.Out, "state error", must.Sprint("devlink does not show"))
}

// Recover ends the error, as an administrator does.
func (d *Netdevsim) Recover() {
	d.t.Helper()
	d.health("fail_recover", "N")
	Must(d.t, "devlink", "health", "recover", "netdevsim/"+NetdevsimDevice, "reporter", "fw")
}

func (d *Netdevsim) healthFile(name string) string {
	return filepath.Join("/sys/kernel/debug/netdevsim", NetdevsimDevice, "health", name)
}

func (d *Netdevsim) health(name, value string) { d.write(d.healthFile(name), value) }

func (d *Netdevsim) write(path, value string) {
	d.t.Helper()
	must.NoError(d.t, os.WriteFile(path, []byte(value), 0))
}
