package policy

import (
	"cmp"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
)

// Duration is a Go duration: 500ms, 30s. A number alone would have no
// unit.
type Duration struct{ time.Duration }

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *Duration) UnmarshalYAML(node *yaml.Node) error {
	parsed, err := time.ParseDuration(node.Value)
	if err != nil || node.Kind != yaml.ScalarNode || node.ShortTag() != "!!str" {
		// The format of the decoder's errors, which explain rewords.
		return &yaml.TypeError{Errors: []string{
			fmt.Sprintf("line %d: cannot unmarshal %s `%s` into duration", node.Line, node.ShortTag(), node.Value)}}
	}
	d.Duration = parsed
	return nil
}

// FileHealth configures how long a fault must last to count.
type FileHealth struct {
	// DownAfter is how long the driver must see a fault of an HCA before it counts, from 0s to 10m.
	// Defaults to 5s.
	DownAfter *Duration `yaml:"downAfter"`
	// UpAfter is how long a fault must be absent before its taint is removed, from 0s to 1h.
	// Defaults to 30s.
	UpAfter *Duration `yaml:"upAfter"`
	// FallsPerDay is in how many incidents within 24 hours the link of a port may fall before the port flaps. Falls
	// within 10 minutes are one incident. The number 0 means no limit. Defaults to 3.
	FallsPerDay *int `yaml:"fallsPerDay" jsonschema:"minimum=0,maximum=100"`
}

// The bounds of times. A longer delay would hide faults.
const (
	maxDownAfter       = 10 * time.Minute
	maxUpAfter         = time.Hour
	maxPublishInterval = time.Minute
)

// defaultPublishInterval keeps a storm of changes to one write a second.
const defaultPublishInterval = time.Second

// timing are the times of the file, nil for unset ones.
type timing struct {
	downAfter, upAfter, publishInterval *Duration
	fallsPerDay                         *int
}

// HealthTimes returns the times and limits for judging health. The argument are those for a file without them.
func (c *Config) HealthTimes(h health.Config) health.Config {
	h.Down = cmp.Or(c.timing.downAfter, &Duration{h.Down}).Duration
	h.Up = cmp.Or(c.timing.upAfter, &Duration{h.Up}).Duration
	h.Falls = *cmp.Or(c.timing.fallsPerDay, &h.Falls)
	return h
}

// PublishInterval returns the minimum time between two publications. The first change after a
// longer pause is published at once.
func (c *Config) PublishInterval() time.Duration {
	return cmp.Or(c.timing.publishInterval, &Duration{defaultPublishInterval}).Duration
}

// timing validates the times.
func (p *problems) timing(f *File) timing {
	p.within("health.downAfter", f.Health.DownAfter, maxDownAfter)
	p.within("health.upAfter", f.Health.UpAfter, maxUpAfter)
	p.within("publishInterval", f.PublishInterval, maxPublishInterval)
	between(p, "health.fallsPerDay", f.Health.FallsPerDay, 0, 100, 0)
	return timing{f.Health.DownAfter, f.Health.UpAfter, f.PublishInterval, f.Health.FallsPerDay}
}

// within checks that a time is neither negative nor too long.
func (p *problems) within(field string, d *Duration, most time.Duration) {
	if d != nil && (d.Duration < 0 || d.Duration > most) {
		p.add(field, "want 0s to %v, not %v", most, d.Duration)
	}
}
