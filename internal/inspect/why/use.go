package why

import (
	"encoding/json"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// usableCondition is the driver's condition of an allocated device: whether the containers that start with it can use
// it. The driver leaves it out while nothing was checked.
const usableCondition = "Usable"

// DeviceUse is what the containers of a claim have of a device, in the words of the driver.
type DeviceUse struct {
	Device    string   `json:"device"`
	HCAs      []string `json:"hcas,omitempty"` // the kernel's names
	Interface string   `json:"interface,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	// GIDs are those that are made from addresses, with port and index.
	GIDs []string `json:"gids,omitempty"`
	// Usable is True, False, or empty if nothing was checked. Checks says what was, for each container.
	Usable metav1.ConditionStatus `json:"usable,omitempty"`
	Checks string                 `json:"checks,omitempty"`
}

// usesOf returns what containers have of the devices of a claim.
func usesOf(claim *resourceapi.ResourceClaim) (out []DeviceUse) {
	for _, s := range claim.Status.Devices {
		if s.Driver != rdma.Domain {
			continue
		}
		u := DeviceUse{Device: model.DeviceName(structured.MakeDeviceID(s.Driver, s.Pool, s.Device))}
		if n := s.NetworkData; n != nil {
			u.Interface, u.Addresses = n.InterfaceName, n.IPs
		}
		if s.Data != nil {
			u.HCAs, u.GIDs = readData(s.Data.Raw)
		}
		for _, c := range s.Conditions {
			if c.Type == usableCondition {
				u.Usable, u.Checks = c.Status, c.Message
			}
		}
		out = append(out, u)
	}
	return out
}

// readData reads the names and GIDs from the driver's data. Data of another form, as of a newer driver, has none.
func readData(raw []byte) (hcas, gids []string) {
	var data struct {
		HCAs []struct {
			IBDev string `json:"ibdev"`
			Ports []struct {
				Number int `json:"number"`
				GIDs   []struct {
					GID   string `json:"gid"`
					Index int    `json:"index"`
					Type  string `json:"type"`
				} `json:"gids"`
			} `json:"ports"`
		} `json:"hcas"`
	}
	if json.Unmarshal(raw, &data) != nil {
		return nil, nil
	}
	for _, h := range data.HCAs {
		hcas = append(hcas, h.IBDev)
		for _, p := range h.Ports {
			for _, g := range p.GIDs {
				if !strings.HasPrefix(g.GID, "fe80:") { // no link-local address
					gids = append(gids, fmt.Sprintf("%s port %d index %d: %s %s", h.IBDev, p.Number, g.Index, g.GID, g.Type))
				}
			}
		}
	}
	return hcas, gids
}
