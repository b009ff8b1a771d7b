package args

import (
	"math/big"
	"strings"
	"testing"
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
		{"1k", 1000},
		{"1K", 1000},
		{"64M", 64e6},
		{"2G", 2e9},
		{"3T", 3e12},
		{"007Mi", 7 << 20},
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
		{"+1", "neither"},
		{"1.5Gi", "neither"},
		{"1e9", "neither"},
		{" 1", "neither"},
		{"1 Mi", "neither"},
		{"1mi", "neither"},
		{"1MiB", "neither"},
		{"0x10", "neither"},
		{"infinity", "neither"},
		{"Unlimited", "neither"},
		{"0", "raise nothing"},
		{"0Gi", "raise nothing"},
		{"18446744073709551616", "64 bits"},
		{"16777216Ti", "64 bits"},
	} {
		got, err := ParseSize(tt.in)
		if err == nil || !strings.Contains(err.Error(), tt.inError) {
			t.Errorf("ParseSize(%q) = %d, %v; want an error with %q", tt.in, got, err, tt.inError)
		}
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
		if got := size.String(); got != want {
			t.Errorf("Size(%d).String() = %q, want %q", uint64(size), got, want)
		}
	}
}

// FuzzParseSize compares every accepted size with arithmetic without limits, and
// reads back what the report would hold.
func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"unlimited", "1", "8Mi", "64K", "18446744073709551615", "16777215Ti", "0", "1.5Gi", "-1",
		"Ki"} {
		f.Add(s)
	}
	units := map[string]int64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
		"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "": 1}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseSize(s)
		if err != nil {
			return
		}
		if s != "unlimited" {
			digits := strings.TrimRight(s, "KMGTki")
			want, ok := new(big.Int).SetString(digits, 10)
			if !ok || units[s[len(digits):]] == 0 {
				t.Fatalf("ParseSize(%q) = %d, want an error", s, got)
			}
			want.Mul(want, big.NewInt(units[s[len(digits):]]))
			if want.Cmp(new(big.Int).SetUint64(uint64(got))) != 0 {
				t.Fatalf("ParseSize(%q) = %d, want %s", s, got, want)
			}
		}
		text, _ := got.MarshalText()
		var back Size
		if err := back.UnmarshalText(text); err != nil || back != got {
			t.Fatalf("Size %d: text %q reads back as %d, %v", got, text, back, err)
		}
	})
}
