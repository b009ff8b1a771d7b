package vm

import "fmt"

// Carrier takes away the carrier of the guest's network device, as a cable that is pulled, or gives it back. The guest
// must run.
func (p *Port) Carrier(up bool) error {
	monitor, err := openMonitor(p.monitor())
	if err != nil {
		return fmt.Errorf("set the carrier of port %d: %w", p.number, err)
	}
	defer monitor.Close()
	if _, err := monitor.do("set_link", map[string]any{"name": p.id(), "up": up}); err != nil {
		return fmt.Errorf("set the carrier of port %d: %w", p.number, err)
	}
	return nil
}
