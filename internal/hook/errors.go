package hook

// wrapped is what fmt.Errorf("%s: %w") would give; fmt is not linked.
type wrapped struct {
	what string
	err  error
}

func (w *wrapped) Error() string { return w.what + ": " + w.err.Error() }
func (w *wrapped) Unwrap() error { return w.err }

// wrap puts what was tried in front of err; nil stays nil.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return &wrapped{what, err}
}
