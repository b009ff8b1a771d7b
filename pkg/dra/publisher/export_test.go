package publisher

import "time"

// ListEvery sets the shortest time between two comparisons with a list. It must be called before Run.
func (p *Publisher) ListEvery(interval time.Duration) { p.every = interval }
