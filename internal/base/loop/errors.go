package loop

import "sync"

// Errors has the last error of each thing that is retried, by the name of the thing. A retry may fail for weeks, so an
// error is logged only when it is new. The zero value has none. It is safe for concurrent use.
type Errors struct{ texts sync.Map }

// IsNew records the result of a try, nil for success. It reports whether this is an error, and not the last one again.
func (e *Errors) IsNew(name string, err error) bool {
	if err == nil {
		e.texts.Delete(name)
		return false
	}
	before, _ := e.texts.Swap(name, err.Error())
	return before != err.Error()
}
