package dra

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registration says whether the kubelet has registered this driver.
type registration struct{ atomic.Bool }

// RegisteredHeader is set on the driver's answers to GetInfo once the kubelet has
// registered it, so that a readiness probe can ask over the real socket.
const RegisteredHeader = "rdma-dev-registered"

// observe watches the calls of the kubelet. After a registration the slices are
// published again: a kubelet that has just started has wiped those of its node.
func (d *Driver) observe(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if status, ok := req.(*registerapi.RegistrationStatus); ok {
		d.isUp.Store(status.PluginRegistered)
		if status.PluginRegistered {
			notify(d.registered)
		}
	}
	if _, ok := req.(*registerapi.InfoRequest); ok && d.isUp.Load() {
		if err := grpc.SetHeader(ctx, metadata.Pairs(RegisteredHeader, "true")); err != nil {
			return nil, err
		}
	}
	return d.cfg.Metrics.Call(ctx, req, handler)
}
