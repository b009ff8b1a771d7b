// Package metrics holds the driver's Prometheus metrics.
//
// There are two sources. The driver updates the [Instruments] when something happens: how
// long a phase took, why a claim failed, that the health of a device changed. A [Collector]
// measures the present state at each scrape: package report writes the node's status to [Samples].
//
// Without Instruments (nil) the driver measures nothing. The catalog declares every metric once,
// with the bound on its series per node. The table in docs/reference/metrics.md is made from it.
//
// # Labels
//
// A series of a device has the name of the HCA's slot (device), which is also its name in the
// ResourceSlices, and the kernel's name (ibdev), which can change with a reboot. If exactly one
// claim holds the HCA, the labels claim and namespace name it. If exactly one pod of that claim
// uses the HCA, the label pod names it. The counters of a shared HCA have no such labels, but
// [DeviceAllocation] lists all of its claims and pods.
package metrics

import "github.com/prometheus/client_golang/prometheus"

// Kind is the Prometheus type of a metric.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric declares a metric.
type Metric struct {
	Name   string
	Kind   Kind
	Labels []string
	Help   string
	// Bound is the maximum number of series on a node, as text for the documentation.
	Bound string

	desc *prometheus.Desc // of a metric that a scrape reads
}

// Catalog has all metrics of the driver in the order of the documentation. It lacks the
// metrics of the Go runtime, the process, and the handler of scrapes.
var Catalog []Metric

func declare(m Metric) Metric {
	Catalog = append(Catalog, m)
	return m
}

// scraped declares a metric that a scrape reads.
func scraped(name string, kind Kind, labels []string, help, bound string) Metric {
	return declare(Metric{name, kind, labels, help, bound, prometheus.NewDesc(name, help, labels, nil)})
}

// updated declares a metric of the Instruments.
func updated(name string, kind Kind, labels []string, help, bound string) Metric {
	return declare(Metric{name, kind, labels, help, bound, nil})
}

// The labels of an HCA, a port, and a container.
var (
	ofDevice    = []string{"device", "ibdev", "namespace", "claim", "pod"}
	ofPort      = []string{"device", "ibdev", "port", "namespace", "claim", "pod"}
	ofContainer = []string{"device", "ibdev", "namespace", "claim", "pod", "pod_uid", "container_id"}
)

func with(labels []string, more ...string) []string {
	return append(labels[:len(labels):len(labels)], more...)
}

const perOne = "1"

// The metrics that are read at each scrape.
var (
	DeviceInfo = scraped("rdma_device_info", Gauge,
		[]string{"device", "ibdev", "driver", "function", "protocol", "model", "board_id", "firmware", "pci_address", "numa_node"},
		"An RDMA device (HCA) of the node; always 1.", "HCAs")
	DeviceHealthy = scraped("rdma_device_healthy", Gauge, []string{"device", "ibdev"},
		"Whether the HCA can carry traffic: 1 if it is healthy, 0 if it is not healthy or its state is unknown.", "HCAs")
	DeviceUnused = scraped("rdma_device_unused", Gauge, []string{"device", "ibdev"},
		"An HCA that is down because nobody cabled it; always 1, absent for others.", "HCAs")
	DeviceTaint = scraped("rdma_device_taint", Gauge, []string{"device", "ibdev", "key", "effect"},
		"A taint that the HCA's health requires; always 1, absent without the taint.", "HCAs x conditions")
	DeviceCondition = scraped("rdma_device_condition", Gauge, []string{"device", "ibdev", "condition"},
		"A condition of the HCA (docs/health.md); always 1, absent without the condition.", "HCAs x conditions")
	DeviceFalls = scraped("rdma_device_falls", Gauge, []string{"device", "ibdev"},
		"In how many incidents a port of the HCA fell within a day.", "HCAs")
	DeviceAllocation = scraped("rdma_device_allocation_info", Gauge,
		[]string{"device", "dra_device", "namespace", "claim", "pod"},
		"A claim that holds the HCA, with the pool's device in its allocation and a pod that uses it; always 1. "+
			"The pod is empty while the kubelet names none.", "4096")
	PortActive = scraped("rdma_port_active", Gauge, ofPort, "Whether the port is ACTIVE.", "ports")
	PortSpeed  = scraped("rdma_port_speed_bytes_per_second", Gauge, ofPort,
		"The data rate of the port, while it is ACTIVE.", "ports")
	PortReceivedBytes = scraped("rdma_port_received_bytes_total", Counter, ofPort,
		"Bytes that the port received: port_rcv_data times 4, or the driver's equivalent.", "ports (a)")
	PortTransmittedBytes = scraped("rdma_port_transmitted_bytes_total", Counter, ofPort,
		"Bytes that the port sent: port_xmit_data times 4, or the driver's equivalent.", "ports (a)")
	PortReceivedPackets = scraped("rdma_port_received_packets_total", Counter, ofPort,
		"Packets that the port received.", "ports (a)")
	PortTransmittedPackets = scraped("rdma_port_transmitted_packets_total", Counter, ofPort,
		"Packets that the port sent.", "ports (a)")
	PortCounter = scraped("rdma_port_statistic_total", Counter, with(ofPort, "counter"),
		"A file of ports/N/counters, in the kernel's unit: port_rcv_data and port_xmit_data in words of 4 bytes, "+
			"port_xmit_wait in ticks.", "ports x 22 (a)")
	PortHWCounter = scraped("rdma_port_hw_statistic_total", Counter, with(ofPort, "counter"),
		"A file of ports/N/hw_counters, in the driver's unit.", "ports x files of the driver (a)")
	PortHWLevel = scraped("rdma_port_hw_level", Gauge, with(ofPort, "counter"),
		"A file of ports/N/hw_counters that holds a level, such as active_qps.", "ports x files of the driver (a)")
	DeviceHWCounter = scraped("rdma_device_hw_statistic_total", Counter, with(ofDevice, "counter"),
		"A file of the HCA's own hw_counters, in the driver's unit.", "HCAs x files of the driver (a)")
	DeviceHWLevel = scraped("rdma_device_hw_level", Gauge, with(ofDevice, "counter"),
		"A file of the HCA's own hw_counters that holds a level.", "HCAs x files of the driver (a)")
	CountersOmitted = scraped("rdma_counters_omitted_devices", Gauge, nil,
		"HCAs whose counters this scrape omits, because there were too many or reading took too long.", perOne)
	CountersUnreadable = scraped("rdma_counters_unreadable", Gauge, nil,
		"Counter files that this scrape could not read.", perOne)

	ContainerHandles = scraped("rdma_container_handles", Gauge, ofContainer,
		"Open contexts of a container on an HCA (hca_handle in rdma.current).", "1024")
	ContainerObjects = scraped("rdma_container_objects", Gauge, ofContainer,
		"Verbs objects of a container on an HCA, such as queue pairs (hca_object in rdma.current).", "1024")
	ContainerMaxHandles = scraped("rdma_container_handles_limit", Gauge, ofContainer,
		"The limit of rdma_container_handles (rdma.max); absent without a limit.", "1024")
	ContainerMaxObjects = scraped("rdma_container_objects_limit", Gauge, ofContainer,
		"The limit of rdma_container_objects (rdma.max); absent without a limit.", "1024")

	PublishedDevices = scraped("rdma_driver_published_devices", Gauge, []string{"kind"},
		"Devices in the node's pool, by kind: exclusive, shared or group.", "3")
	AllocatedDevices = scraped("rdma_driver_allocated_devices", Gauge, []string{"kind"},
		"Devices of the pool that prepared claims hold, by kind, without those for monitoring.", "3")
	PreparedClaims = scraped("rdma_driver_prepared_claims", Gauge, nil, "Claims that are prepared.", perOne)
	Conditions     = scraped("rdma_driver_unhealthy_devices", Gauge, []string{"condition"},
		"HCAs with a condition, by condition (docs/health.md).", "conditions")
	IPAMAddresses = scraped("rdma_driver_ipam_addresses", Gauge, []string{"ipam"},
		"Addresses that pods can have in the node's block of an entry of ipam; 0 if the node has no block.", "entries")
	IPAMUsed = scraped("rdma_driver_ipam_used_addresses", Gauge, []string{"ipam"},
		"Addresses of rdma_driver_ipam_addresses that pods have.", "entries")
	Registered = scraped("rdma_driver_registered", Gauge, nil, "Whether the kubelet has registered this driver.", perOne)
	PodsKnown  = scraped("rdma_driver_pod_resources_up", Gauge, nil,
		"Whether the kubelet reported which pods use which claims. If it is 0, series have no pod.", perOne)
	ConfigRefused = scraped("rdma_driver_configuration_refused", Gauge, nil,
		"Whether the driver does not use its policy as it is now, because of a mistake: the last valid one is in "+
			"force, or none since the driver started.", perOne)
	NRIConnected = scraped("rdma_driver_nri_connected", Gauge, nil,
		"Whether the driver's NRI plugin is connected to the container runtime; absent for a driver without one.", perOne)
	APITrouble = scraped("rdma_driver_api_trouble", Gauge, []string{"request", "reason"},
		"A kind of request to the API server that failed recently and has not succeeded since, with the reason; "+
			"always 1, absent without a failure.", "requests of 10 kinds")
	APIFailures = scraped("rdma_driver_api_failures_total", Counter, []string{"request", "reason"},
		"Requests to the API server that failed, by kind of request and reason.", "10 kinds x reasons")
)

// The metrics that the driver updates when something happens. They start at 0 with the driver.
var (
	PrepareDuration = updated("rdma_driver_prepare_duration_seconds", Histogram, []string{"phase"},
		"Time to prepare one claim, by phase: wait, plan, spec, record, write; "+
			"claim is their sum, and call is a whole call of the kubelet.", "7 x 22")
	UnprepareDuration = updated("rdma_driver_unprepare_duration_seconds", Histogram, []string{"phase"},
		"Time to unprepare one claim (claim), or for a whole call of the kubelet (call).", "2 x 22")
	PublishDuration = updated("rdma_driver_publish_duration_seconds", Histogram, []string{"phase"},
		"Time from a change until the API client has the new slices, by phase: decide, build, hand_over; "+
			"all is their sum.", "4 x 22")
	MoveDuration = updated("rdma_driver_move_duration_seconds", Histogram, []string{"direction"},
		"Time to move the HCAs of one pod into its network namespace and write their specs (in), "+
			"or back to the host (out).", "2 x 22")
	MoveErrors = updated("rdma_driver_move_errors_total", Counter, []string{"direction"},
		"Pods whose HCAs the driver could not move into their network namespaces (in), "+
			"and HCAs that it left for the kernel to move back (out).", "2")
	Publications = updated("rdma_driver_publications_total", Counter, nil,
		"Times that the driver handed new slices to the API client.", perOne)
	ClaimErrors = updated("rdma_driver_claim_errors_total", Counter, []string{"operation", "reason"},
		"Claims that the driver could not prepare or unprepare, by reason.", "10")
	PublishErrors = updated("rdma_driver_publish_errors_total", Counter, nil,
		"Times that the API server refused slices or was not reachable to write them.", perOne)
	HealthTransitions = updated("rdma_driver_health_transitions_total", Counter, []string{"condition", "to"},
		"Conditions of HCAs that began (to=\"bad\") or ended (to=\"good\").", "26")
	HookReports = updated("rdma_driver_hook_reports_total", Counter, []string{"what", "outcome"},
		"Results of the hook in started containers: for their locked memory limit (what=\"memlock\"), "+
			"and for their limits on HCAs (what=\"limit\").", "10")
	ContainerChecks = updated("rdma_driver_container_checks_total", Counter, []string{"check", "result"},
		"What the hook found of HCAs in starting containers, by check: whether the verbs library has a provider for it, "+
			"the user may open it, locked memory suffices, and variables of libraries name it.", "12")
	APIRequests = updated("rdma_driver_api_requests_total", Counter, []string{"method", "code"},
		"Requests to the API server, by HTTP method and status; code is \"error\" for a request without an answer.",
		"9 methods x codes")
	APIDuration = updated("rdma_driver_api_request_duration_seconds", Histogram, []string{"method"},
		"Time until the API server answered, by HTTP method.", "9 x 22")
	APIRetries = updated("rdma_driver_api_request_retries_total", Counter, []string{"code"},
		"Requests that the client sent again, by the status of the previous answer.", "codes")
	APILastError = updated("rdma_driver_api_last_error_timestamp_seconds", Gauge, []string{"reason"},
		"When the API server last gave an error or no answer, by reason: the text of the HTTP status, or Unreachable.",
		"reasons, 10 or so")
	BuildInfo = updated("rdma_driver_build_info", Gauge, []string{"version", "goversion"},
		"The build of the driver; always 1.", perOne)
)
