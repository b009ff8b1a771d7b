package policy

import (
	"cmp"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// Duration is a time as Go writes it: 500ms, 30s. A number alone would leave open of
// what.
type Duration struct{ time.Duration }

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *Duration) UnmarshalYAML(node *yaml.Node) error {
	parsed, err := time.ParseDuration(node.Value)
	if err != nil || node.Kind != yaml.ScalarNode || node.ShortTag() != "!!str" {
		// In the decoder's words, which explain translates.
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: cannot unmarshal %s `%s` into duration", node.Line, node.ShortTag(), node.Value)}}
	}
	d.Duration = parsed
	return nil
}

// FileHealth says how long things must be before they count.
type FileHealth struct {
	// DownAfter is how long a fault of an HCA must be seen before it counts, from 0s to 10m.
	// Defaults to 5s.
	DownAfter *Duration `yaml:"downAfter"`
	// UpAfter is how long it must be gone before its taint goes, from 0s to 1h. Defaults to
	// 30s.
	UpAfter *Duration `yaml:"upAfter"`
}

// The bounds of times. What is longer than these would hide what it delays.
const (
	maxDownAfter       = 10 * time.Minute
	maxUpAfter         = time.Hour
	maxPublishInterval = time.Minute
)

// defaultPublishInterval keeps a storm of changes to one write a second.
const defaultPublishInterval = time.Second

// timing are the times of the file, nil for those that it does not have.
type timing struct{ downAfter, upAfter, publishInterval *Duration }

// HealthTimes returns how long a fault must be seen before it counts, and how long it
// must be gone before it ends, which are the given times unless the file says otherwise.
func (c *Config) HealthTimes(down, up time.Duration) (time.Duration, time.Duration) {
	return cmp.Or(c.timing.downAfter, &Duration{down}).Duration, cmp.Or(c.timing.upAfter, &Duration{up}).Duration
}

// PublishInterval returns the least time between two publications. What changes after
// a longer quiet is published at once.
func (c *Config) PublishInterval() time.Duration {
	return cmp.Or(c.timing.publishInterval, &Duration{defaultPublishInterval}).Duration
}

// timing reads the times.
func (p *problems) timing(f *File) timing {
	p.within("health.downAfter", f.Health.DownAfter, maxDownAfter)
	p.within("health.upAfter", f.Health.UpAfter, maxUpAfter)
	p.within("publishInterval", f.PublishInterval, maxPublishInterval)
	return timing{f.Health.DownAfter, f.Health.UpAfter, f.PublishInterval}
}

// within checks that a time is not negative, and not longer than it may be.
func (p *problems) within(field string, d *Duration, most time.Duration) {
	if d != nil && (d.Duration < 0 || d.Duration > most) {
		p.add(field, "want 0s to %v, not %v", most, d.Duration)
	}
}
