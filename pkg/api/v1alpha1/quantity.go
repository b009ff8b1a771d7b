package v1alpha1

import (
	"bytes"
	"errors"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Quantity is a Kubernetes quantity from a user.
type Quantity struct{ Value resource.Quantity }

// The bounds of a quantity's text. Leading zeros mean nothing, but the parser keeps them.
const (
	maxQuantity       = 64
	maxExponentDigits = 3
)

// ParseQuantity parses a quantity within bounds. The parser itself computes with as many digits as the exponent
// says: 1e-10000000 takes seconds, and 1e-2147483648 does not end within minutes.
func ParseQuantity(text string) (resource.Quantity, error) {
	if len(text) > maxQuantity {
		return resource.Quantity{}, errors.New("a number has at most 64 characters")
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 && len(strings.TrimLeft(text[i+1:], "+-0")) > maxExponentDigits {
		return resource.Quantity{}, errors.New("the exponent of a number has at most 3 digits")
	}
	return resource.ParseQuantity(text)
}

// MarshalJSON implements json.Marshaler.
func (q Quantity) MarshalJSON() ([]byte, error) { return q.Value.MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler.
func (q *Quantity) UnmarshalJSON(value []byte) error {
	if string(value) == "null" {
		return nil // as json.Unmarshaler has it
	}
	var err error
	q.Value, err = ParseQuantity(strings.TrimSpace(string(bytes.Trim(value, `"`))))
	return err
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
