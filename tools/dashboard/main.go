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
	"os"

	"github.com/spf13/cobra"
)

// file is where the chart has it, from the root of the checkout.
const file = "deployments/helm/dra-driver-rdma/monitoring/dashboard.json"

func main() {
	var print bool
	cmd := &cobra.Command{
		Use: "dashboard", Short: "Write the chart's Grafana dashboard", Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := generate()
			if err != nil {
				return err
			}
			if print {
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			if err := os.WriteFile(file, text, 0o644); err != nil {
				return fmt.Errorf("write the dashboard: %w (run in the root of the checkout)", err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&print, "print", false, "print it")
	if cmd.Execute() != nil {
		os.Exit(1)
	}
}

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
