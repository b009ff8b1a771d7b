package main

// The units that Grafana knows.
const (
	bytesPerSecond = "Bps"
	perSecond      = "cps"
	seconds        = "s"
	ratio          = "percentunit"
	number         = "short"
	clock          = "dateTimeFromNow"
)

// row is a row of panels.
type row struct {
	title  string
	panels []panel
}

// kind is how a panel shows what it has.
type kind int

const (
	lines kind = iota // over time
	now               // a number
	list              // a table
)

// panel shows queries.
type panel struct {
	kind    kind
	title   string
	help    string
	unit    string
	bad     float64 // a number from here on is red; 0 for none
	width   uint32  // of 24
	queries []query
}

// query is an expression and the name of its lines.
type query struct{ expr, legend string }

// Selectors: all is what the variables at the top choose, host without the device.
const (
	all  = `instance=~"$instance",device=~"$device"`
	host = `instance=~"$instance"`
	port = "{{instance}} {{ibdev}} {{port}} {{pod}}"
)

var rows = []row{{
	"Overview", []panel{
		{now, "Drivers registered", "Nodes whose kubelet has registered the driver.", number, 0, 4, []query{{`sum(rdma_driver_registered{` + host + `})`, ""}}},
		{now, "Devices published", "Devices in the ResourceSlices.", number, 0, 4, []query{{`sum(rdma_driver_published_devices{` + host + `})`, ""}}},
		{now, "Devices allocated", "Devices that prepared claims hold.", number, 0, 4, []query{{`sum(rdma_driver_allocated_devices{` + host + `})`, ""}}},
		{now, "Claims prepared", "", number, 0, 4, []query{{`sum(rdma_driver_prepared_claims{` + host + `})`, ""}}},
		{now, "Devices not healthy", "HCAs that carry no traffic.", number, 1, 4, []query{{`count(rdma_device_healthy{` + all + `} == 0) or vector(0)`, ""}}},
		{now, "Claims that failed, 1 h", "", number, 1, 4, []query{{`sum(increase(rdma_driver_claim_errors_total{` + host + `}[1h]))`, ""}}},
	},
}, {
	"Traffic", []panel{
		{lines, "Received", "", bytesPerSecond, 0, 12, []query{{`rate(rdma_port_received_bytes_total{` + all + `}[$__rate_interval])`, port}}},
		{lines, "Transmitted", "", bytesPerSecond, 0, 12, []query{{`rate(rdma_port_transmitted_bytes_total{` + all + `}[$__rate_interval])`, port}}},
		{lines, "Packets", "", perSecond, 0, 12, []query{
			{`rate(rdma_port_received_packets_total{` + all + `}[$__rate_interval])`, "in " + port},
			{`rate(rdma_port_transmitted_packets_total{` + all + `}[$__rate_interval])`, "out " + port},
		}},
		{lines, "Utilization", "The larger of the two directions, of the rate of the port.", ratio, 0, 12, []query{{
			`(rate(rdma_port_received_bytes_total{` + all + `}[$__rate_interval]) > rate(rdma_port_transmitted_bytes_total{` + all + `}[$__rate_interval])` +
				` or rate(rdma_port_transmitted_bytes_total{` + all + `}[$__rate_interval])) / rdma_port_speed_bytes_per_second{` + all + `}`, port,
		}}},
		{lines, "By pod", "Of HCAs that one pod has alone.", bytesPerSecond, 0, 24, []query{
			{`sum by (namespace, pod) (rate(rdma_port_received_bytes_total{` + all + `,pod!=""}[$__rate_interval]))`, "in {{namespace}}/{{pod}}"},
			{`sum by (namespace, pod) (rate(rdma_port_transmitted_bytes_total{` + all + `,pod!=""}[$__rate_interval]))`, "out {{namespace}}/{{pod}}"},
		}},
	},
}, {
	"Errors and congestion", []panel{
		{lines, "Loss and retransmission", "Packets that were lost or out of order, and time-outs.", perSecond, 0, 12, []query{{
			`rate(rdma_port_hw_statistic_total{` + all + `,counter=~"out_of_sequence|packet_seq_err|local_ack_timeout_err|implied_nak_seq_err|rnr_nak_retry_err|roce_slow_restart|retrans_.*|tcpRetransSegs|out_of_seq_request|retry_.*"}[$__rate_interval])`,
			"{{ibdev}} {{counter}} {{pod}}",
		}}},
		{lines, "Congestion", "RoCE: congestion notifications. InfiniBand: ticks in which data waited for credits.", perSecond, 0, 12, []query{
			{`rate(rdma_port_hw_statistic_total{` + all + `,counter=~"np_cnp_sent|rp_cnp_handled|np_ecn_marked_roce_packets|cnp.*|RxECNMrkd"}[$__rate_interval])`, "{{ibdev}} {{counter}} {{pod}}"},
			{`rate(rdma_port_statistic_total{` + all + `,counter="port_xmit_wait"}[$__rate_interval])`, "{{ibdev}} port_xmit_wait {{pod}}"},
		}},
		{lines, "Cable", "Errors of the link. Most of these counters stay at their maximum until they are cleared.", number, 0, 12, []query{{
			`increase(rdma_port_statistic_total{` + all + `,counter=~"symbol_error|link_.*|port_rcv_errors|local_link_integrity_errors|excessive_buffer_overrun_errors"}[1h])`, "{{ibdev}} {{counter}}",
		}}},
		{lines, "Buffers and discards", "", perSecond, 0, 12, []query{
			{`rate(rdma_port_hw_statistic_total{` + all + `,counter=~"out_of_buffer|rx_drops|ip.InDiscards"}[$__rate_interval])`, "{{ibdev}} {{counter}} {{pod}}"},
			{`rate(rdma_port_statistic_total{` + all + `,counter=~"port_xmit_discards|VL15_dropped"}[$__rate_interval])`, "{{ibdev}} {{counter}}"},
		}},
	},
}, {
	"Health", []panel{
		{list, "Taints", "", "", 0, 12, []query{{`rdma_device_taint{` + all + `}`, ""}}},
		{lines, "Devices with a condition", "", number, 0, 6, []query{{`sum by (condition) (rdma_driver_unhealthy_devices{` + host + `})`, "{{condition}}"}}},
		{lines, "Changes of health", "", number, 0, 6, []query{{`sum by (condition, to) (increase(rdma_driver_health_transitions_total{` + host + `}[1h]))`, "{{condition}} {{to}}"}}},
		{list, "Worst links", "The links that fell most often within a day.", "", 0, 12, []query{{`topk(20, rdma_device_falls{` + all + `})`, ""}}},
		{list, "Sick links", "Links that are up and not as they should be, and those that are down.", "", 0, 12, []query{{`rdma_device_condition{` + all + `}`, ""}}},
		{lines, "Errors of the worst links", "", number, 0, 24, []query{{`topk(20, sum by (instance, ibdev, port, counter) (increase(rdma_port_statistic_total{` + all + `,counter=~"symbol_error|link_.*|port_rcv_errors|local_link_integrity_errors|excessive_buffer_overrun_errors"}[1h])))`, "{{instance}} {{ibdev}} {{port}} {{counter}}"}}},
		{list, "Devices", "", "", 0, 24, []query{{`rdma_device_info{` + all + `}`, ""}}},
	},
}, {
	"Claims", []panel{
		{list, "Who has what", "", "", 0, 24, []query{{`rdma_device_allocation_info{` + all + `}`, ""}}},
		{lines, "Started containers", "What the hook did to locked memory and to limits on HCAs.", number, 0, 8, []query{{`sum by (what, outcome) (increase(rdma_driver_hook_reports_total{` + host + `}[1h]))`, "{{what}} {{outcome}}"}}},
		{lines, "Verbs objects of containers", "rdma.current of the rdma cgroup controller.", number, 0, 8, []query{{`rdma_container_objects{` + all + `}`, "{{ibdev}} {{namespace}}/{{pod}}"}}},
		{lines, "Of their limits", "", ratio, 0, 8, []query{
			{`rdma_container_objects{` + all + `} / rdma_container_objects_limit{` + all + `}`, "objects {{ibdev}} {{namespace}}/{{pod}}"},
			{`rdma_container_handles{` + all + `} / rdma_container_handles_limit{` + all + `}`, "handles {{ibdev}} {{namespace}}/{{pod}}"},
		}},
	},
}, {
	"Driver", []panel{
		{lines, "Prepare, 99th percentile", "By phase: claim is all that the driver does, call what the kubelet waits for.", seconds, 0, 12, []query{{
			`histogram_quantile(0.99, sum by (phase, le) (rate(rdma_driver_prepare_duration_seconds_bucket{` + host + `}[$__rate_interval])))`, "{{phase}}",
		}}},
		{lines, "Unprepare and publish, 99th percentile", "", seconds, 0, 12, []query{
			{`histogram_quantile(0.99, sum by (phase, le) (rate(rdma_driver_unprepare_duration_seconds_bucket{` + host + `}[$__rate_interval])))`, "unprepare {{phase}}"},
			{`histogram_quantile(0.99, sum by (phase, le) (rate(rdma_driver_publish_duration_seconds_bucket{` + host + `}[5m])))`, "publish {{phase}}"},
		}},
		{lines, "Claims that failed", "", perSecond, 0, 8, []query{{`sum by (operation, reason) (rate(rdma_driver_claim_errors_total{` + host + `}[$__rate_interval]))`, "{{operation}} {{reason}}"}}},
		{lines, "Requests to the API server", "", perSecond, 0, 8, []query{{`sum by (method, code) (rate(rdma_driver_api_requests_total{` + host + `}[$__rate_interval]))`, "{{method}} {{code}}"}}},
		{lines, "Requests that failed", "", perSecond, 0, 8, []query{{`sum by (request, reason) (rate(rdma_driver_api_failures_total{` + host + `}[$__rate_interval]))`, "{{request}} {{reason}}"}}},
		{lines, "API server, 99th percentile", "", seconds, 0, 8, []query{{
			`histogram_quantile(0.99, sum by (method, le) (rate(rdma_driver_api_request_duration_seconds_bucket{` + host + `}[$__rate_interval])))`, "{{method}}",
		}}},
		{now, "Last API trouble", "", clock, 0, 8, []query{{`max by (reason) (rdma_driver_api_last_error_timestamp_seconds{` + host + `}) * 1000`, "{{reason}}"}}},
		{lines, "Publications", "", number, 0, 8, []query{{`increase(rdma_driver_publications_total{` + host + `}[1h])`, "{{instance}}"}, {`increase(rdma_driver_publish_errors_total{` + host + `}[1h])`, "{{instance}} errors"}}},
		{lines, "Memory", "", "bytes", 0, 24, []query{{`process_resident_memory_bytes{` + host + `} and on (instance) rdma_driver_registered`, "{{instance}}"}}},
		{list, "Versions", "", "", 0, 24, []query{{`count by (version, goversion) (rdma_driver_build_info{` + host + `})`, ""}}},
	},
}}
