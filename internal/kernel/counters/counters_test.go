package counters_test

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/counters"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
)

func sysOf(t testing.TB, machine string) fs.FS {
	t.Helper()
	m, err := fixture.Load(machine)
	must.NoError(t, err)
	return m.FS(t)
}

// number is a number that may be absent.
func number(f *float64) string {
	if f == nil {
		return "absent"
	}
	return strconv.FormatFloat(*f, 'f', -1, 64)
}

func describe(p counters.Port, d counters.Device) string {
	t := p.Traffic()
	return fmt.Sprintf("%d standard, %d hardware, %d of the device; received %s bytes, %s packets; transmitted %s, %s",
		len(p.Standard), len(p.Hardware), len(d.Hardware), number(t.ReceivedBytes), number(t.ReceivedPackets),
		number(t.TransmittedBytes), number(t.TransmittedPackets))
}

// TestMachines: the counters of each kind of driver are found, without a word about it
// here, and its traffic is in bytes.
func TestMachines(t *testing.T) {
	for _, tc := range []struct{ machine, ibdev, want string }{
		{"hgx-h100", "mlx5_0", "21 standard, 31 hardware, 0 of the device; received 2757598620356 bytes, 225799531875 " +
			"packets; transmitted 1544990554580, 158681459371"},
		{"dgx-h100-ib", "mlx5_0", "21 standard, 21 hardware, 0 of the device; received 3979048938488 bytes, 496298073388 " +
			"packets; transmitted 531586037992, 429182032612"},
		{"aws-p5", "rdmap79s0", "0 standard, 22 hardware, 12 of the device; received 124176990662 bytes, 744668446713 " +
			"packets; transmitted 111035783300, 229519775698"},
		{"irdma-e810", "rocep24s0f0", "0 standard, 36 hardware, 0 of the device; received 1210381953439 bytes, " +
			"371770172865 packets; transmitted 934912725463, 1061486511491"},
		{"irdma-e810", "iwp24s0f1", "0 standard, 36 hardware, 0 of the device; received 1194812569247 bytes, " +
			"1757468539585 packets; transmitted 1229687360983, 1067676416643"},
		{"omnipath-hfi1", "hfi1_0", "21 standard, 8 hardware, 4 of the device; received 1953960474688 bytes, 986460400066 " +
			"packets; transmitted 2350490970960, 1055707016714"},
		{"amd-pollara", "ionic_0", "0 standard, 20 hardware, 0 of the device; received 1083593769047 bytes, 1164763167781 " +
			"packets; transmitted 1463672481581, 1976112784215"},
		{"gaudi2", "hbl_0", "0 standard, 0 hardware, 0 of the device; received absent bytes, absent packets; transmitted " +
			"absent, absent"},
		{"soft", "rxe0", "0 standard, 15 hardware, 0 of the device; received absent bytes, 0 packets; transmitted absent, 0"},
		{"azure-mana", "mana_0", "0 standard, 0 hardware, 0 of the device; received absent bytes, absent packets; " +
			"transmitted absent, absent"},
		{"none", "mlx5_0", "0 standard, 0 hardware, 0 of the device; received absent bytes, absent packets; transmitted " +
			"absent, absent"},
	} {
		t.Run(tc.machine+" "+tc.ibdev, func(t *testing.T) {
			sys := sysOf(t, tc.machine)
			p, d := counters.ReadPort(sys, tc.ibdev, 1), counters.ReadDevice(sys, tc.ibdev)
			test.Eq(t, tc.want, describe(p, d), test.Sprint("counters"))
			test.LessEq(t, 0, p.Unreadable+d.Unreadable,
				test.Sprintf("%d files are unreadable", p.Unreadable+d.Unreadable))
		})
	}
}

// port1 is a /sys with one port, which has the given files.
func port1(files map[string]string) fstest.MapFS {
	sys := fstest.MapFS{}
	for name, text := range files {
		sys["class/infiniband/x_0/ports/1/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	return sys
}

// TestUnits: words of four octets become bytes, sums are of what is there, and the
// standard counters come first.
func TestUnits(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"words", map[string]string{"counters/port_rcv_data": "25\n", "counters/port_xmit_data": "0\n"}, "100 0"},
		{"the most that 64 bits hold", map[string]string{"counters/port_rcv_data": "18446744073709551614\n"},
			"73786976294838210000 absent"},
		{"bytes", map[string]string{"hw_counters/rx_bytes": "25\n", "hw_counters/tx_bytes": "7"}, "25 7"},
		{"both kinds", map[string]string{"hw_counters/rx_bytes": "101\n", "counters/port_rcv_data": "25\n"}, "100 absent"},
		{"sum", map[string]string{"hw_counters/ip4InOctets": "3\n", "hw_counters/ip6InOctets": "4\n",
			"hw_counters/ip6OutOctets": "9\n"}, "7 9"},
		{"unicast and multicast", map[string]string{"hw_counters/rx_rdma_ucast_bytes": "5\n",
			"hw_counters/rx_rdma_mcast_bytes": "2\n", "hw_counters/tx_rdma_ucast_bytes": "1\n"}, "7 1"},
		{"neither", map[string]string{"hw_counters/out_of_buffer": "3\n"}, "absent absent"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			traffic := counters.ReadPort(port1(tc.files), "x_0", 1).Traffic()
			test.Eq(t, tc.want, number(traffic.ReceivedBytes)+" "+number(traffic.TransmittedBytes),
				test.Sprint("received and transmitted"))
		})
	}
}

// TestAbsent: what is no number is no counter, and costs the others nothing.
func TestAbsent(t *testing.T) {
	p := counters.ReadPort(port1(map[string]string{
		"counters/port_rcv_data":   "N/A (no PMA)\n",
		"counters/symbol_error":    "",
		"counters/link_downed":     "-1\n",
		"counters/port_xmit_wait":  "0x10\n",
		"counters/port_rcv_errors": "3\n",
		"hw_counters/not_read":     "18446744073709551615\n",
		"hw_counters/lifespan":     "10\n",
		"hw_counters/too_large":    "18446744073709551616\n",
		"hw_counters/sub/file":     "1\n",
		"hw_counters/cnpSent":      "0\n",
	}), "x_0", 1)
	want := counters.Port{
		Standard:   []counters.Counter{{Name: "port_rcv_errors", Value: 3}},
		Hardware:   []counters.Counter{{Name: "cnpSent", Value: 0}},
		Unreadable: 4,
	}
	test.Eq(t, want, p, test.Sprint("counters"))
}

func TestIsGauge(t *testing.T) {
	for name, want := range map[string]bool{
		"active_qps": true, "watermark_mrs": true, "db_fifo_register": true,
		"port_rcv_data": false, "out_of_buffer": false, "pacing_alerts": false,
	} {
		test.Eq(t, want, counters.IsGauge(name), test.Sprintf("%s is a gauge", name))
	}
}

// FuzzReadPort: whatever a driver writes, a counter is a number that stands there.
func FuzzReadPort(f *testing.F) {
	for _, text := range []string{"0\n", "18446744073709551615\n", "N/A (no PMA)\n", "", "-1", "1 2", "\x00", "0b1",
		"1_000"} {
		f.Add("port_rcv_data", text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		if !fs.ValidPath(name) || strings.Contains(name, "/") || name == "." {
			t.Skip()
		}
		p := counters.ReadPort(port1(map[string]string{"counters/" + name: text}), "x_0", 1)
		if len(p.Standard)+p.Unreadable > 1 || len(p.Hardware) > 0 {
			t.Fatalf("one file makes %+v", p)
		}
		for _, c := range p.Standard {
			if c.Name != name || strings.TrimLeft(strings.TrimSpace(text),
				"0") != strings.TrimLeft(strconv.FormatUint(c.Value, 10), "0") {
				t.Errorf("%q of %q is %+v", text, name, c)
			}
		}
		p.Traffic()
	})
}
