package v1alpha1

import (
	"encoding/json"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Memlock is a locked memory limit: "unlimited", "inherit" or a quantity of
// bytes. In JSON it is a string, or a number of bytes.
type Memlock string

// The limits that are not quantities.
const (
	MemlockUnlimited Memlock = "unlimited"
	MemlockInherit   Memlock = "inherit"
)

// UnmarshalJSON accepts a string or a number.
func (m *Memlock) UnmarshalJSON(b []byte) error {
	var n json.Number
	if json.Unmarshal(b, &n) == nil && len(b) > 0 && b[0] != '"' {
		*m = Memlock(n)
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("memlock %s: want a string or a number of bytes", b)
	}
	*m = Memlock(s)
	return nil
}

// Bytes returns the limit in bytes: math.MaxInt64 for unlimited, 0 for inherit.
func (m Memlock) Bytes() (int64, error) {
	switch m {
	case MemlockUnlimited:
		return math.MaxInt64, nil
	case MemlockInherit:
		return 0, nil
	}
	q, err := ParseQuantity(string(m))
	if err != nil {
		return 0, fmt.Errorf("want unlimited, inherit or a quantity of bytes such as 4Gi: %w", err)
	}
	n, ok := whole(q)
	if !ok {
		return 0, fmt.Errorf("want a positive whole number of bytes")
	}
	return n, nil
}

// whole returns a quantity that is a positive whole number below math.MaxInt64, which stands for
// all higher numbers. Quantity.AsInt64 is no alternative: it rejects 1.5Gi, and numbers with
// more than 18 digits.
func whole(q resource.Quantity) (int64, bool) {
	if q.Sign() <= 0 || q.CmpInt64(math.MaxInt64) >= 0 {
		return 0, false
	}
	n := q.Value() // rounded up
	return n, q.CmpInt64(n) == 0
}
