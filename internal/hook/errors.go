package hook

import (
	"errors"
	"fmt"
	"io/fs"
)

// wrap prefixes err with what was tried. It returns nil for nil.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// cause returns the error of the system call, without the path that callers add.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
