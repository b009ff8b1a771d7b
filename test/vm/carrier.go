package vm

import (
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// Carrier takes away the carrier of the guest's network device, as a cable that is pulled, or gives it back. The guest
// must run.
func (p *Port) Carrier(up bool) error {
	conn, err := net.Dial("unix", p.monitor())
	if err != nil {
		return fmt.Errorf("set the carrier of port %d: ask QEMU: %w", p.number, err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	monitor := monitor{json.NewEncoder(conn), json.NewDecoder(conn)}
	if err := monitor.do("qmp_capabilities", nil); err != nil {
		return fmt.Errorf("set the carrier of port %d: %w", p.number, err)
	}
	if err := monitor.do("set_link", map[string]any{"name": p.id(), "up": up}); err != nil {
		return fmt.Errorf("set the carrier of port %d: %w", p.number, err)
	}
	return nil
}

// monitor speaks QMP, QEMU's protocol for its control.
type monitor struct {
	to   *json.Encoder
	from *json.Decoder
}

// do has QEMU execute a command, and waits for its answer. Greeting and events come in between.
func (m monitor) do(command string, arguments map[string]any) error {
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	if err := m.to.Encode(request); err != nil {
		return fmt.Errorf("QEMU's command %s: %w", command, err)
	}
	for {
		var answer struct {
			Return *json.RawMessage `json:"return"`
			Error  *struct {
				Description string `json:"desc"`
			} `json:"error"`
		}
		if err := m.from.Decode(&answer); err != nil {
			return fmt.Errorf("QEMU's command %s: %w", command, err)
		}
		if answer.Error != nil {
			return fmt.Errorf("QEMU's command %s: %s", command, answer.Error.Description)
		}
		if answer.Return != nil {
			return nil
		}
	}
}
