package policy

import (
	"github.com/rdma-dev/dra-driver-rdma/internal/hostconfig"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The version and kind of the file.
const (
	APIVersion = hostconfig.APIVersion
	Kind       = "DriverConfig"
)

// Config is a configuration file that was found to be valid. It is never changed.
type Config struct {
	container    hostconfig.Container
	partitioning bool
}

// Container is what every RDMA container of the node gets.
func (c *Config) Container() hostconfig.Container { return c.container }

// Partitioning says whether the devices of a card exclude each other by counters,
// if the API server has them.
func (c *Config) Partitioning() bool { return c.partitioning }

// Default is the policy of a node without a file: every usable HCA is published for
// one claim alone.
func Default() *Config { return &Config{} }

// Parse reads a configuration file.
func Parse(data []byte) (*Config, error) {
	var c Config
	return &c, hostconfig.Decode(data, &struct {
		APIVersion           string `yaml:"apiVersion"`
		Kind                 string `yaml:"kind"`
		hostconfig.Container `yaml:",inline"`
	}{})
}

// Apply decides what is published of a host. It does not keep the snapshot, but
// the result points into it.
func (c *Config) Apply(snap *rdma.Snapshot, state State) Result {
	r := Result{NetnsMode: snap.NetnsMode, Options: resources.Options{Consumable: !state.NoConsumable}}
	for i := range snap.HCAs {
		h := &snap.HCAs[i]
		d := Decision{HCA: h, Wanted: resources.ViewExclusive, View: resources.ViewExclusive}
		if err := h.Unusable(); err != nil {
			d.View, d.Reason = resources.ViewNone, err.Error()
		}
		d.Offer = resources.Offer{HCA: h, View: d.View}
		r.Decisions = append(r.Decisions, d)
	}
	return r
}
