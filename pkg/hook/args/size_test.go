package args

import (
	"testing"

	"github.com/shoenig/test"
)

func TestParseSize(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Size
	}{
		{"unlimited", Unlimited},
		{"18446744073709551615", Unlimited}, // what an NRI rlimit adjustment writes
		{"1", 1},
		{"8388608", 8 << 20},
		{"64Ki", 64 << 10},
		{"8Mi", 8 << 20},
		{"2Gi", 2 << 30},
		{"1Ti", 1 << 40},
		{"4G", 4e9},
		{"4g", 4 << 30},
		{"4GB", 4 << 30},
		{"1.5Gi", 3 << 29},
	} {
		got, err := ParseSize(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", tt.in, got, err, tt.want)
		}
	}
}

func TestParseSizeRefuses(t *testing.T) {
	for _, tt := range []struct{ in, inError string }{
		{"", "neither"},
		{"Mi", "neither"},
		{"-1", "neither"},
		{"1 Mi", "neither"},
		{"infinity", "neither"},
		{"Unlimited", "neither"},
		{"1.5", "no whole number"},
		{"0", "raise nothing"},
		{"0Gi", "raise nothing"},
		{"18446744073709551616", `64 bits hold; did you mean "unlimited"?`},
		{"16777216Ti", "64 bits"},
	} {
		got, err := ParseSize(tt.in)
		test.ErrorContains(t, err, tt.inError, test.Sprintf("ParseSize(%q) = %d", tt.in, got))
	}
}

func TestSizeString(t *testing.T) {
	for size, want := range map[Size]string{
		Unlimited:     "unlimited",
		Unlimited - 1: "18446744073709551614 bytes",
		0:             "0 bytes",
		1000:          "1000 bytes",
		1 << 10:       "1 KiB",
		64 << 10:      "64 KiB",
		8 << 20:       "8 MiB",
		1025 << 20:    "1025 MiB",
		2 << 40:       "2048 GiB",
	} {
		test.Eq(t, want, size.String(), test.Sprintf("Size(%d).String()", uint64(size)))
	}
}
