package doctor

import (
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

func TestParseUnitSize(t *testing.T) {
	for in, want := range map[string]args.Size{
		"infinity": args.Unlimited, "65536": 65536, "64K": 65536, "8M:infinity": 8 << 20, "1G": 1 << 30, " 2T ": 2 << 40,
		"infinity:infinity": args.Unlimited,
	} {
		if got, ok := parseUnitSize(in); !ok || got != want {
			t.Errorf("%q: got %d, %v, want %d", in, got, ok, want)
		}
	}
	for _, in := range []string{"", "K", "-1", "8Q", "99999999999E", "18446744073709551615", "eight"} {
		if got, ok := parseUnitSize(in); ok {
			t.Errorf("%q: got %d", in, got)
		}
	}
}

func TestParseLimits(t *testing.T) {
	for _, in := range []string{"", "Max cpu time unlimited unlimited seconds\n", "Max locked memory\n",
		"Max locked memory  many  many  bytes\n"} {
		test.Nil(t, parseLimits(in), test.Sprintf("%q", in))
	}
	got := parseLimits("Max locked memory         65536                unlimited            bytes     \n")
	if got == nil || got.soft != 65536 || got.hard != args.Unlimited {
		t.Errorf("got %+v", got)
	}
}

// The unit of the first directory counts, and drop-ins apply by name over all
// directories.
func TestUnitLimit(t *testing.T) {
	f := newFake(t, "none")
	f.file("/usr/lib/systemd/system/crio.service", "[Service]\nLimitMEMLOCK=1G\n")
	f.file("/usr/lib/systemd/system/crio.service.d/90-low.conf", "[Service]\nLimitMEMLOCK=2G\n")
	f.file("/etc/systemd/system/crio.service.d/50-own.conf", "[Service]\nLimitMEMLOCK=3G\n")
	f.file("/etc/systemd/system/crio.service.d/README", "LimitMEMLOCK=4G\n")
	for _, step := range []struct {
		hide string
		want args.Size
		file string
	}{
		{"", 2 << 30, "/usr/lib/systemd/system/crio.service.d/90-low.conf"},
		{"/etc/systemd/system/crio.service.d/90-low.conf", 3 << 30, "/etc/systemd/system/crio.service.d/50-own.conf"},
		{"/etc/systemd/system/crio.service", 3 << 30, "/etc/systemd/system/crio.service.d/50-own.conf"},
	} {
		f.host.Root = f.root
		if step.hide != "" {
			f.file(step.hide, "[Service]\n")
		}
		host := &reader{Host: &f.host}
		got, file := host.unitLimit("crio.service")
		if got != step.want || file != step.file {
			t.Errorf("after %q: got %d from %s, want %d from %s", step.hide, got, file, step.want, step.file)
		}
	}
}
