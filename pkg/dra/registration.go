package dra

import (
	"context"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registration says whether the kubelet has registered this driver.
type registration struct{ atomic.Bool }

// RegisteredHeader is set on the driver's answers to GetInfo once the kubelet has
// registered it, so that a readiness probe can ask over the real socket.
const RegisteredHeader = "rdma-dev-registered"

// TroubleHeader is set on the same answers for each kind of request to the API server that is
// in trouble, with what is wrong in words.
const TroubleHeader = "rdma-dev-api-trouble"

// observe watches the calls of the kubelet. After a registration the slices are
// published again: a kubelet that has just started has wiped those of its node.
func (d *Driver) observe(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if status, ok := req.(*registerapi.RegistrationStatus); ok {
		d.isUp.Store(status.PluginRegistered)
		if status.PluginRegistered {
			notify(d.registered)
		}
	}
	if _, ok := req.(*registerapi.InfoRequest); ok {
		if err := grpc.SetHeader(ctx, d.introduction()); err != nil {
			return nil, err
		}
	}
	if call, ok := req.(*drapb.NodePrepareResourcesRequest); ok {
		var cancel context.CancelFunc
		ctx, cancel = withClaims(ctx, d.client, call.Claims)
		defer cancel()
	}
	return d.cfg.Metrics.Call(ctx, req, handler)
}

// introduction is what the driver says of itself beside its name.
func (d *Driver) introduction() metadata.MD {
	md := metadata.MD{}
	if d.isUp.Load() {
		md.Set(RegisteredHeader, "true")
	}
	for _, trouble := range d.cfg.Troubles.Current() {
		md.Append(TroubleHeader, printable(trouble.String()))
	}
	return md
}

// printable makes text fit for a header.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}
