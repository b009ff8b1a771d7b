package hook

import "fmt"

// wrap prefixes err with what was tried. It returns nil for nil.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
