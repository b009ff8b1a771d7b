package metrics

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/counters"
)

// Collector reads the state of the node at each scrape.
type Collector struct {
	read func(context.Context) State

	scrape sync.Mutex // serializes the scrapes, which read the host
}

// readTime bounds how long a scrape reads the host. Prometheus gives up after ten seconds.
const readTime = 5 * time.Second

// NewCollector makes a collector. It cancels the context of read after readTime.
func NewCollector(read func(context.Context) State) *Collector { return &Collector{read: read} }

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
	s := c.read(ctx)
	e := emitter(ch)
	unreadable := 0
	for i := range s.Devices {
		e.device(&s.Devices[i])
		unreadable += s.Devices[i].unreadable()
	}
	for _, a := range s.Allocations {
		e.put(DeviceAllocation, 1, a.Device, a.DRADevice, a.Owner.Namespace, a.Owner.Claim, a.Owner.Pod)
	}
	for i := range s.Containers {
		e.container(&s.Containers[i])
	}
	e.put(CountersOmitted, float64(s.Omitted))
	e.put(CountersUnreadable, float64(unreadable))
	e.numbers(PublishedDevices, s.Published)
	e.numbers(AllocatedDevices, s.Allocated)
	e.numbers(Conditions, s.Conditions)
	e.put(PreparedClaims, float64(s.PreparedClaims))
	e.put(Registered, boolValue(s.Registered))
	e.put(PodsKnown, boolValue(s.PodsKnown))
	e.put(ConfigRefused, boolValue(s.Refused))
	if s.NRIConnected != nil {
		e.put(NRIConnected, boolValue(*s.NRIConnected))
	}
	for _, b := range s.Blocks {
		e.put(IPAMAddresses, float64(b.Size), b.IPAM)
		e.put(IPAMUsed, float64(len(b.Addresses)), b.IPAM)
	}
	for _, t := range s.Troubles {
		e.put(APITrouble, 1, t.Request, t.Reason)
	}
	for f, n := range s.Failures {
		e.put(APIFailures, float64(n), f.Request, f.Reason)
	}
}

// emitter sends metrics to one scrape.
type emitter chan<- prometheus.Metric

// put sends one sample. It skips a sample with a kernel name that is not valid UTF-8.
func (e emitter) put(m Metric, value float64, labels ...string) {
	kind := prometheus.GaugeValue
	if m.Kind == Counter {
		kind = prometheus.CounterValue
	}
	if sample, err := prometheus.NewConstMetric(m.desc, kind, value, labels...); err == nil {
		e <- sample
	}
}

func putOptional[T uint64 | float64](e emitter, m Metric, value *T, labels []string) {
	if value != nil {
		e.put(m, float64(*value), labels...)
	}
}

func (e emitter) numbers(m Metric, numbers map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		e.put(m, float64(numbers[name]), name)
	}
}

func (e emitter) device(d *Device) {
	e.put(DeviceInfo, 1, d.Name, d.IBDev, d.Driver, d.Function, d.Protocol,
		d.Model, d.BoardID, d.Firmware, d.PCI, d.NUMANode)
	if d.Unused {
		e.put(DeviceUnused, 1, d.Name, d.IBDev)
	}
	if d.Healthy != nil {
		e.put(DeviceHealthy, boolValue(*d.Healthy), d.Name, d.IBDev)
		e.put(DeviceFalls, float64(d.Falls), d.Name, d.IBDev)
	}
	for _, t := range d.Taints {
		e.put(DeviceTaint, 1, d.Name, d.IBDev, t.Key, t.Effect)
	}
	for _, condition := range d.Conditions {
		e.put(DeviceCondition, 1, d.Name, d.IBDev, condition)
	}
	e.counters(DeviceHWCounter, DeviceHWLevel, d.Counters.Hardware,
		d.Name, d.IBDev, d.Owner.Namespace, d.Owner.Claim, d.Owner.Pod)
	for i := range d.Ports {
		e.port(d, &d.Ports[i])
	}
}

func (e emitter) port(d *Device, p *Port) {
	labels := []string{d.Name, d.IBDev, strconv.Itoa(p.Number), d.Owner.Namespace, d.Owner.Claim, d.Owner.Pod}
	e.put(PortActive, boolValue(p.Active), labels...)
	if p.Active && p.BytesPerSecond > 0 {
		e.put(PortSpeed, p.BytesPerSecond, labels...)
	}
	t := p.Counters.Traffic()
	putOptional(e, PortReceivedBytes, t.ReceivedBytes, labels)
	putOptional(e, PortTransmittedBytes, t.TransmittedBytes, labels)
	putOptional(e, PortReceivedPackets, t.ReceivedPackets, labels)
	putOptional(e, PortTransmittedPackets, t.TransmittedPackets, labels)
	e.counters(PortCounter, PortCounter, p.Counters.Standard, labels...)
	e.counters(PortHWCounter, PortHWLevel, p.Counters.Hardware, labels...)
}

// counters sends the counters of a directory. Those that hold a level go to the gauge.
func (e emitter) counters(count, level Metric, list []counters.Counter, labels ...string) {
	for _, c := range list {
		m := count
		if counters.IsGauge(c.Name) {
			m = level
		}
		e.put(m, float64(c.Value), with(labels, c.Name)...)
	}
}

func (e emitter) container(c *Container) {
	labels := []string{c.Device, c.IBDev, c.Owner.Namespace, c.Owner.Claim, c.Owner.Pod, c.PodUID, c.Usage.Container}
	e.put(ContainerHandles, float64(c.Handles), labels...)
	e.put(ContainerObjects, float64(c.Objects), labels...)
	putOptional(e, ContainerMaxHandles, c.MaxHandles, labels)
	putOptional(e, ContainerMaxObjects, c.MaxObjects, labels)
}

func (d *Device) unreadable() int {
	n := d.Counters.Unreadable
	for _, p := range d.Ports {
		n += p.Counters.Unreadable
	}
	return n
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
