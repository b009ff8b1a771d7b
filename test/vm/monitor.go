package vm

import (
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// monitorTimeout bounds a connection to QEMU's monitor. QEMU answers in its main thread, which may stand still.
const monitorTimeout = time.Minute

// monitor speaks QMP, QEMU's protocol for its control.
type monitor struct {
	net.Conn
	to   *json.Encoder
	from *json.Decoder
}

// openMonitor connects to the monitor at a socket. The caller closes it.
func openMonitor(socket string) (*monitor, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connect to QEMU's monitor: %w", err)
	}
	m := &monitor{conn, json.NewEncoder(conn), json.NewDecoder(conn)}
	err = conn.SetDeadline(time.Now().Add(monitorTimeout))
	if err == nil {
		_, err = m.do("qmp_capabilities", nil)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return m, nil
}

// do has QEMU execute a command, and waits for its answer. Greeting and events come in between.
func (m *monitor) do(command string, arguments map[string]any) (json.RawMessage, error) {
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	if err := m.to.Encode(request); err != nil {
		return nil, fmt.Errorf("QEMU's command %s: %w", command, err)
	}
	for {
		var answer struct {
			Return json.RawMessage `json:"return"`
			Error  *struct {
				Description string `json:"desc"`
			} `json:"error"`
		}
		if err := m.from.Decode(&answer); err != nil {
			return nil, fmt.Errorf("QEMU's command %s: %w", command, err)
		}
		if answer.Error != nil {
			return nil, fmt.Errorf("QEMU's command %s: %s", command, answer.Error.Description)
		}
		if answer.Return != nil {
			return answer.Return, nil
		}
	}
}

// human has QEMU execute a command of its monitor for people, and returns what that prints.
func (m *monitor) human(command string) (said string, err error) {
	answer, err := m.do("human-monitor-command", map[string]any{"command-line": command})
	if err == nil {
		err = json.Unmarshal(answer, &said)
	}
	return said, err
}
