// Dashboard writes the chart's Grafana dashboard.
//
//	go run ./tools/dashboard           write deployments/helm/dra-driver-rdma/monitoring/dashboard.json
//	go run ./tools/dashboard --print   print it
//
// What is on it stands in panels.go; test/monitoring runs each of its queries against a
// real Prometheus.
package main

import (
	"encoding/json"
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/tools/internal/generator"
)

// file is where the chart has it, from the root of the checkout.
const file = "deployments/helm/dra-driver-rdma/monitoring/dashboard.json"

func main() { generator.Main("dashboard", "the chart's Grafana dashboard", file, generate) }

// generate returns the dashboard as JSON.
func generate() ([]byte, error) {
	d, err := build()
	if err != nil {
		return nil, fmt.Errorf("build the dashboard: %w", err)
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the dashboard: %w", err)
	}
	return append(text, '\n'), nil
}
