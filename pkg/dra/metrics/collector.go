package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector measures the node at each scrape. It keeps nothing between two scrapes, so nothing remains of removed
// devices.
type Collector struct {
	measure func(context.Context, Samples)

	scrape sync.Mutex // serializes the scrapes, which read the host
}

// readTime bounds how long a scrape reads the host. Prometheus gives up after ten seconds.
const readTime = 5 * time.Second

// NewCollector makes a collector. It cancels the context of measure after readTime.
func NewCollector(measure func(context.Context, Samples)) *Collector {
	return &Collector{measure: measure}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range Catalog {
		if m.desc != nil {
			ch <- m.desc
		}
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.scrape.Lock()
	defer c.scrape.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	c.measure(ctx, ch)
}

// Samples takes the samples of one scrape.
type Samples chan<- prometheus.Metric

// Put sends one sample. It skips a sample with a kernel name that is not valid UTF-8.
func (s Samples) Put(m Metric, value float64, labels ...string) {
	kind := prometheus.GaugeValue
	if m.Kind == Counter {
		kind = prometheus.CounterValue
	}
	if sample, err := prometheus.NewConstMetric(m.desc, kind, value, labels...); err == nil {
		s <- sample
	}
}
