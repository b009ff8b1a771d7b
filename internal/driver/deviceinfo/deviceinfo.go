// Package deviceinfo writes the device information files of the Network Plumbing Working Group. It writes them for
// devices that CNI plugins receive.
//
// Multus copies such a file to the directory where CNI plugins look. It copies the content to the pod's annotation
// k8s.v1.cni.cncf.io/network-status. A program in the pod then learns the PCI function and the RDMA device of an
// interface. The specification is https://github.com/k8snetworkplumbingwg/device-info-spec, version 1.1.0. Device
// plugins write a file when a device is allocated. This package keeps a file for as long as the device is published, so
// the file does not name the owner of the device.
package deviceinfo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// Device is a PCI function that CNI plugins identify by a resource name and an ID.
type Device struct {
	ResourceName, DeviceID string
	PCIAddress             string
	PFAddress              string // of a VF
	RDMADevice             string // the ibdev name
}

// version is the version of the specification.
const version = "1.1.0"

// info is the content of a file.
type info struct {
	Type    string `json:"type"`
	Version string `json:"version"`
	PCI     pci    `json:"pci"`
}

type pci struct {
	Address   string `json:"pci-address"`
	RDMA      string `json:"rdma-device,omitempty"`
	PFAddress string `json:"pf-pci-address,omitempty"`
}

// file returns the name of a device's file.
func (d Device) file() string { return prefix(d.ResourceName) + flat(d.DeviceID) + suffix }

const suffix = "-device.json"

func prefix(resourceName string) string { return flat(resourceName) + "-" }

func flat(name string) string { return strings.ReplaceAll(name, "/", "-") }

// Store is a directory of device information files. It is not safe for concurrent use.
type Store struct {
	// Dir is the directory that Multus reads: /var/run/k8s.cni.cncf.io/devinfo/dp.
	Dir string

	prefixes []string // of our own files
}

// Sync makes the directory match the present devices. It is idempotent. It writes the files of these devices. It
// removes the files of other devices of the same resource names, and of earlier resource names. It keeps files of other
// resource names, because they belong to device plugins. It continues after an error with one file.
func (s *Store) Sync(devices []Device) error {
	var errs []error
	wanted := map[string]bool{}
	for _, d := range devices {
		wanted[d.file()] = true
		if p := prefix(d.ResourceName); !slices.Contains(s.prefixes, p) {
			s.prefixes = append(s.prefixes, p)
		}
		data, err := json.Marshal(info{"pci", version, pci{d.PCIAddress, d.RDMADevice, d.PFAddress}})
		if err == nil {
			_, err = atomicfile.Write(filepath.Join(s.Dir, d.file()), data, atomicfile.Options{Mode: 0o644})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("write device information of %s: %w", d.DeviceID, err))
		}
	}
	if len(s.prefixes) == 0 {
		return nil
	}
	return errors.Join(append(errs, s.remove(wanted))...)
}

// remove removes our files, except the wanted ones.
func (s *Store) remove(wanted map[string]bool) error {
	var errs []error
	err := hostfs.EachLocal(s.Dir, func(e fs.DirEntry) error {
		if wanted[e.Name()] || !ours(e.Name(), s.prefixes) {
			return nil
		}
		if err := os.Remove(filepath.Join(s.Dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove device information of a device that is gone: %w", err))
		}
		return nil
	})
	if err != nil {
		errs = append(errs, fmt.Errorf("look for device information of devices that are gone: %w", err))
	}
	return errors.Join(errs...)
}

// ours reports whether a file belongs to a device with a PCI address and one of the resource names. The fixed form of
// the address distinguishes the files of resource a/b from the files of a/b-c.
func ours(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		id, ok := strings.CutPrefix(name, prefix)
		id, ends := strings.CutSuffix(id, suffix)
		return ok && ends && isPCIAddress(id)
	})
}

// isPCIAddress reports whether a text has the form DDDD:BB:DD.F. The domain may have more digits.
func isPCIAddress(s string) bool {
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == ':' || r == '.' })
	return len(parts) == 4 && len(parts[0]) >= 4 && len(s) == len(parts[0])+len(":BB:DD.F") && !strings.Contains(s, "-")
}
