package bench

import (
	"fmt"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// starts are how often each driver is started.
const starts = 7

// BenchmarkStart is from the start of the process to the registration with the kubelet, and
// until all slices are stored.
func BenchmarkStart(b *testing.B) {
	for _, devices := range []int{8, 1016} {
		b.Run(fmt.Sprintf("devices=%d", devices), func(b *testing.B) {
			pair, _ := newPair(b, devices)
			registered, stored := map[*side]times{}, map[*side]times{}
			for round := range starts {
				inTurn(round, pair, func(s *side) {
					s.stop()
					s.WipeSlices()
					began := time.Now()
					s.driver = drivertest.StartProgram(b, s.command...)
					s.WaitForPlugins(1)
					registered[s] = append(registered[s], time.Since(began))
					s.waitForDevices(b, devices)
					stored[s] = append(stored[s], s.LastSliceWrite().Sub(began))
				})
			}
			for name, of := range map[string]map[*side]times{"registered": registered, "stored": stored} {
				b.Run(name, func(b *testing.B) {
					for _, s := range pair {
						report(b, "driver="+s.name, of[s].figures())
					}
				})
			}
		})
	}
}

// stop ends the driver, and waits until the kubelet has noticed.
func (s *side) stop() {
	s.driver.Terminate()
	s.WaitForPlugins(0)
}

// BenchmarkRestart is the start beside 1,016 prepared claims, until the driver is
// registered: ours has looked at the files of each claim before.
func BenchmarkRestart(b *testing.B) {
	const devices = 1016
	pair, names := newPair(b, devices)
	var claims []*resourceapi.ResourceClaim
	for i, name := range names {
		claims = append(claims, drivertest.Claim(i, name))
	}
	registered, writes := map[*side]times{}, map[*side]int{}
	for _, s := range pair {
		s.AddClaim(claims...)
		for _, c := range claims {
			s.prepare(b, c)
		}
		s.stop()
		s.start(b, devices)
		writes[s] = s.Count(drivertest.CreateSlice) + s.Count(drivertest.UpdateSlice)
	}
	for round := range starts {
		inTurn(round, pair, func(s *side) {
			s.stop()
			registered[s] = append(registered[s], took(func() {
				s.driver = drivertest.StartProgram(b, s.command...)
				s.WaitForPlugins(1)
			}))
		})
	}
	b.Run(fmt.Sprintf("prepared=%d/registered", len(claims)), func(b *testing.B) {
		for _, s := range pair {
			f := registered[s].figures()
			f["slice-writes"] = float64(s.Count(drivertest.CreateSlice) + s.Count(drivertest.UpdateSlice) - writes[s])
			report(b, "driver="+s.name, f)
		}
	})
}
