package report

// Due returns the number of steps that are due now. Others may wait for their turn.
func (r *Recorder) Due() int { return r.queue.steps.Len() }
