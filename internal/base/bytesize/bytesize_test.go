package bytesize_test

import (
	"errors"
	"math"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/bytesize"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want uint64
	}{
		{"0", 0},
		{"0.0e9", 0},
		{"1", 1},
		{"8388608", 8 << 20},
		{"64Ki", 64 << 10},
		{"8Mi", 8 << 20},
		{"2Gi", 2 << 30},
		{"1Ti", 1 << 40},
		{"1k", 1000}, // Kubernetes' powers of 1000 stand in front of those of podman and docker
		{"64M", 64e6},
		{"2G", 2e9},
		{"3T", 3e12},
		{"1P", 1e15},
		{"1E", 1e18},
		{"1Pi", 1 << 50},
		{"1Ei", 1 << 60},
		{"1K", 1 << 10}, // not of Kubernetes: what podman and docker read
		{"4g", 4 << 30},
		{"4gb", 4 << 30},
		{"4GB", 4 << 30},
		{"4Gb", 4 << 30},
		{"4gi", 4 << 30},
		{"4GIB", 4 << 30},
		{"4GiB", 4 << 30},
		{"64m", 64 << 20},
		{"64MB", 64 << 20},
		{"2t", 2 << 40},
		{"1p", 1 << 50},
		{"4096b", 4096},
		{"4096B", 4096},
		{"1.5g", 3 << 29},
		{"1.5Gi", 3 << 29},
		{".5Ki", 512},
		{"5.Ki", 5120},
		{"1e9", 1e9},
		{"1E3", 1e3},
		{"10e-1", 1},
		{"+1", 1},
		{"007Mi", 7 << 20},
		{"0.00000095367431640625Mi", 1},
		{"1000000000000000000000e-20", 10},
		{"18446744073709551.615k", math.MaxUint64},
	} {
		got, err := bytesize.Parse(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("Parse(%q) = %d, %v; want %d", tt.in, got, err, tt.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want error
	}{
		{"", bytesize.ErrNoSize},
		{"Mi", bytesize.ErrNoSize},
		{"-1", bytesize.ErrNoSize},
		{"++1", bytesize.ErrNoSize},
		{"1..5Gi", bytesize.ErrNoSize},
		{".", bytesize.ErrNoSize},
		{".Gi", bytesize.ErrNoSize},
		{"1e9g", bytesize.ErrNoSize},
		{"1e", bytesize.ErrNoSize},
		{"1eb", bytesize.ErrNoSize},
		{"1EI", bytesize.ErrNoSize},
		{"1u", bytesize.ErrNoSize},
		{"1ib", bytesize.ErrNoSize},
		{"1bb", bytesize.ErrNoSize},
		{"1kmg", bytesize.ErrNoSize},
		{"1kii", bytesize.ErrNoSize},
		{strings.Repeat("0", 64) + "1", bytesize.ErrNoSize},
		{" 1", bytesize.ErrNoSize},
		{"1 Mi", bytesize.ErrNoSize},
		{"0x10", bytesize.ErrNoSize},
		{"infinity", bytesize.ErrNoSize},
		{"Unlimited", bytesize.ErrNoSize},
		{"1.5", bytesize.ErrNotWhole},
		{"0.0001Ki", bytesize.ErrNotWhole},
		{"1e-9999", bytesize.ErrNotWhole},
		{"1e9999", bytesize.ErrTooLarge},
		{"1e99999", bytesize.ErrNoSize},
		{"1.00000000000000000001Ei", bytesize.ErrTooLarge},
		{"18446744073709551616", bytesize.ErrTooLarge},
		{"16777216Ti", bytesize.ErrTooLarge},
		{"4\u212a", bytesize.ErrNoSize}, // the Kelvin sign
	} {
		if got, err := bytesize.Parse(tt.in); !errors.Is(err, tt.want) {
			t.Errorf("Parse(%q) = %d, %v; want %v", tt.in, got, err, tt.want)
		}
	}
}

// FuzzParse compares every accepted size with arithmetic without limits.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"1", "8Mi", "64K", "18446744073709551615", "16777215Ti", "0", "1.5Gi", "-1", "Ki", "4gb",
		"1.25e-3kib", "123e4", ".75PB", "3E", "5m"} {
		f.Add(s)
	}
	units := map[string]int64{"": 1, "b": 1, "B": 1, "E": 1e18, "Ei": 1 << 60}
	for i, letter := range []string{"k", "m", "g", "t", "p"} {
		for _, l := range []string{letter, strings.ToUpper(letter)} {
			for _, end := range []string{"", "b", "B", "i", "I", "ib", "iB", "Ib", "IB"} {
				units[l+end] = 1 << (10 * (i + 1))
			}
		}
		decimal := letter
		if letter != "k" {
			decimal = strings.ToUpper(letter)
		}
		units[decimal] = int64(math.Pow10(3 * (i + 1)))
	}
	size := regexp.MustCompile(`^\+?([0-9.]+(?:[eE][-+]?[0-9]+)?)([a-zA-Z]*)$`)
	f.Fuzz(func(t *testing.T, s string) {
		got, err := bytesize.Parse(s)
		if err != nil {
			return
		}
		parts := size.FindStringSubmatch(s)
		must.NotNil(t, parts, must.Sprintf("Parse(%q) = %d, want an error", s, got))
		want, ok := new(big.Rat).SetString(parts[1])
		if !ok || units[parts[2]] == 0 {
			t.Fatalf("Parse(%q) = %d, want an error", s, got)
		}
		want.Mul(want, big.NewRat(units[parts[2]], 1))
		must.Eq(t, 0, want.Cmp(new(big.Rat).SetInt(new(big.Int).SetUint64(got))),
			must.Sprintf("Parse(%q) = %d, want %s", s, got, want))
	})
}
