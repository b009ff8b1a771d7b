package pods

import "sync"

// lastErrors has the last error of each thing that the driver retries, by the name of the thing. A retry may fail for
// weeks, so an error is logged only when it is new. The zero value has none. It is safe for concurrent use.
type lastErrors struct{ texts sync.Map }

// isNew records the result of a try, nil for success. It reports whether this is an error, and not the last one again.
func (l *lastErrors) isNew(name string, err error) bool {
	if err == nil {
		l.texts.Delete(name)
		return false
	}
	before, _ := l.texts.Swap(name, err.Error())
	return before != err.Error()
}
