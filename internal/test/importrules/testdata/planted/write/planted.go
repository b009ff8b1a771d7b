// Package planted breaks the rule "write": a crash leaves half a file.
package planted

import "os"

var replace = os.Rename

func write() error {
	if _, err := os.ReadFile("x"); err != nil {
		return err
	}
	return os.WriteFile("x", nil, 0o644)
}
