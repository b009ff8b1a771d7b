package bench

import (
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// BenchmarkStorm is how many claims a second a node prepares that come eight at a time, by our
// driver with its default settings and by one that does nothing with client-go's: 5 requests a
// second after the first ten, which are not counted.
func BenchmarkStorm(b *testing.B) {
	const devices, burst, limited, free = 64, 10, 25, 1024
	pair, names := newPair(b, devices)
	stock := emptyLike(b, pair[0])
	stock.command = append(stock.command, "-stock")
	stock.start(b, devices)
	claims := addClaims([]*side{pair[0], stock}, 0, burst+free, names).free
	for _, one := range []struct {
		*side
		name  string
		count int
	}{{pair[0], "ours", free}, {stock, "empty", limited}} {
		one.prepareAtOnce(b, claims[:burst], make(times, burst), atOnce)
		each := make(times, one.count)
		whole := took(func() { one.prepareAtOnce(b, claims[burst:burst+one.count], each, atOnce) })
		f := each.figures()
		f["claims/s"] = float64(one.count) * float64(time.Second) / float64(whole)
		report(b, "driver="+one.name, f)
	}
}

// BenchmarkFiles is what the kernel alone needs for the files of a Prepare: the same system calls
// on the same file systems, made by a program that does nothing else, beside a whole Prepare of an
// empty driver. No driver that keeps these files can be nearer to that one.
func BenchmarkFiles(b *testing.B) {
	const devices = 64
	pair, names := newPair(b, devices)
	empty := pair[1]
	claim := drivertest.Claim(1, names[0])
	empty.AddClaim(claim)
	files := newBareFiles(b, pair[0].Node, 0)
	var ours, floor times
	for round := range rounds {
		ours = append(ours, took(func() { files.prepare(b, round) }))
		files.unprepare(b, round)
		floor = append(floor, took(func() { empty.prepare(b, claim) }))
		empty.unprepare(b, claim)
	}
	report(b, "driver=ours", ours.figures())
	report(b, "driver=empty", floor.figures())
}
