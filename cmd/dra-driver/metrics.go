package main

import (
	"context"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/webserver"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
)

// metricsFlags are the flags for metrics and the status page.
type metricsFlags struct{ server webserver.Server }

func (m *metricsFlags) register(f *pflag.FlagSet) {
	f.StringVar(&m.server.Address, "metrics-bind-address", "",
		"`ADDRESS` for Prometheus metrics, path /metrics, and the status page, path /status: plain HTTP on a loopback "+
			"address such as 127.0.0.1:9485; "+
			"on others, such as :9485, TLS for those whom the API server lets get the path; empty for none")
	f.StringVar(&m.server.CertFile, "metrics-tls-cert-file", "",
		"`FILE` with the TLS certificate of this address, read again when it is renewed; the driver makes its own if empty")
	f.StringVar(&m.server.KeyFile, "metrics-tls-key-file", "", "`FILE` with the key of the certificate")
}

// instruments returns the instruments of the driver, nil if metrics are disabled.
func (m *metricsFlags) instruments() (*metrics.Instruments, error) {
	if m.server.Address == "" {
		return nil, nil
	}
	if err := m.server.Validate(); err != nil {
		return nil, cli.Usagef("%w", err)
	}
	i := metrics.New()
	i.MeasureAPI()
	return i, nil
}

// scrapesAtOnce bounds the concurrent scrapes. They read the host one after the other.
const scrapesAtOnce = 4

// start serves the metrics and the status page of a driver until ctx ends. The caller must call stop, which ends the
// server and waits for its end.
func (m *metricsFlags) start(ctx context.Context, node string, i *metrics.Instruments, driver *dra.Driver,
	page http.Handler, client kubernetes.Interface) (stop func()) {
	if i == nil {
		return func() {}
	}
	i.Registry().MustRegister(metrics.NewCollector(driver.Measure))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(i.Registry(), promhttp.HandlerOpts{
		MaxRequestsInFlight: scrapesAtOnce, ErrorHandling: promhttp.ContinueOnError, Registry: i.Registry(),
	}))
	mux.Handle("GET "+nodestatus.Path, page)
	m.server.Names, m.server.Client, m.server.Handler = []string{node}, client, mux
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() { m.server.Run(ctx) })
	return func() { cancel(); serving.Wait() }
}
