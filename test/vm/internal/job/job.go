// Package job is what the program outside the virtual machine and process 1 inside it
// tell each other: a Spec goes in, a Result comes back, both as files of a directory
// that the two share.
package job

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Names on which both sides agree.
const (
	// Tag is the 9p mount tag of the job directory.
	Tag = "job"
	// StdoutPort and StderrPort are the virtio-serial ports.
	StdoutPort = "vm.stdout"
	StderrPort = "vm.stderr"
	// ExitPort is the I/O port of the device that ends QEMU.
	ExitPort = 0xf4
	// Hostname is the guest's name.
	Hostname = "vm"

	specFile    = "spec.json"
	startedFile = "started"
	resultFile  = "result.json"
)

// Spec says what the guest does between its start and its end.
type Spec struct {
	// Argv is the command; Env is added to a plain environment.
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"`
	// Dir is the working directory.
	Dir string `json:"dir,omitempty"`
	// Shares are directories of the host, mounted at their own path.
	Shares []Share `json:"shares,omitempty"`
	// Links are symbolic links to make, from path to target.
	Links map[string]string `json:"links,omitempty"`
	// Devices are the RDMA devices to make, in this order.
	Devices []Device `json:"devices,omitempty"`
	// Number is the last number of the addresses of Devices.
	Number int `json:"number"`
	// Uplink is the address, with its prefix length, of a second network device eth1.
	Uplink string `json:"uplink,omitempty"`
}

// Share is a directory of the host.
type Share struct {
	Tag      string `json:"tag"`
	Path     string `json:"path"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// Device is a software RDMA device on a network device.
type Device struct {
	// Name is the ibdev's name; its letters name the driver: rxe0, siw1.
	Name string `json:"name"`
	// Netdev is the network device. One that is not there is made, if it is
	// named dummyN or vethN.
	Netdev string `json:"netdev"`
}

// Result says how it went.
type Result struct {
	// Exit is the command's exit status, 128 and the signal's number where a
	// signal ended it.
	Exit int `json:"exit"`
	// Error says what kept the command from running.
	Error string `json:"error,omitempty"`
	// Boot are the guest's moments, in seconds since the kernel started.
	Boot []Moment `json:"boot"`
}

// Moment is a point in the guest's life.
type Moment struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// WriteSpec puts the spec into the job directory.
func WriteSpec(dir string, s Spec) error { return write(dir, specFile, s) }

// ReadSpec reads it.
func ReadSpec(dir string) (s Spec, err error) {
	err = read(dir, specFile, &s)
	return s, err
}

// WriteStarted says that the guest has read its spec.
func WriteStarted(dir string) error { return write(dir, startedFile, true) }

// Started says whether it has.
func Started(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, startedFile))
	return err == nil
}

// WriteResult puts the result into the job directory.
func WriteResult(dir string, r Result) error { return write(dir, resultFile, r) }

// ReadResult reads it. Its error is os.ErrNotExist where the guest did not come that far.
func ReadResult(dir string) (r Result, err error) {
	err = read(dir, resultFile, &r)
	return r, err
}

func write(dir, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %q: %w", name, err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".tmp", data, 0o644); err != nil {
		return fmt.Errorf("write the job's %q: %w", name, err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("write the job's %q: %w", name, err)
	}
	return nil
}

func read(dir, name string, v any) error {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("read the job's %q: %w", name, err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("parse the job's %q: %w", name, err)
	}
	return nil
}
