// Command empty is the floor of a DRA driver: it does nothing but what the helper library
// of Kubernetes does for every driver. It registers, publishes the slices that a file
// has, and answers that a claim's devices are prepared. It has no hardware, no files and
// no CDI specs.
//
// The client has no limit of its own, as that of the real driver: with client-go's
// default of 5 requests a second the limit would be all that is measured. With -stock it has
// that default, as drivers have that do not set another one.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const driverName = "rdma.dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "empty:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	node := flag.String("node-name", "", "Kubernetes name of this node")
	kubelet := flag.String("kubelet-dir", "", "root directory of the kubelet")
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig file")
	slices := flag.String("slices", "", "JSON file with the slices to publish")
	stock := flag.Bool("stock", false, "leave client-go's limit of requests as it is")
	flag.Parse()
	resources, err := read(*slices, *node)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	if !*stock {
		config.QPS = -1
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, driver{},
		kubeletplugin.DriverName(driverName),
		kubeletplugin.NodeName(*node),
		kubeletplugin.KubeClient(client),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(*kubelet, "plugins_registry")),
		kubeletplugin.PluginDataDirectoryPath(filepath.Join(*kubelet, "plugins", driverName)),
		kubeletplugin.Serialize(false),
	)
	if err != nil {
		return err
	}
	defer helper.Stop()
	if err := helper.PublishResources(ctx, resources); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// read reads what to publish.
func read(file, pool string) (resourceslice.DriverResources, error) {
	var slices []resourceslice.Slice
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &slices)
	}
	if err != nil {
		return resourceslice.DriverResources{}, fmt.Errorf("read slices: %w", err)
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{pool: {Slices: slices}}}, nil
}

// driver implements kubeletplugin.DRAPlugin.
type driver struct{}

// PrepareResourceClaims says which devices a claim has.
func (driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, c := range claims {
		var devices []kubeletplugin.Device
		for _, r := range c.Status.Allocation.Devices.Results {
			devices = append(devices, kubeletplugin.Device{Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device})
		}
		results[c.UID] = kubeletplugin.PrepareResult{Devices: devices}
	}
	return results, nil
}

// UnprepareResourceClaims has nothing to do.
func (driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := make(map[types.UID]error, len(claims))
	for _, c := range claims {
		results[c.UID] = nil
	}
	return results, nil
}

// WatchHealthStatus says that the driver knows nothing of health.
func (driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

// HandleError ends nothing: the library tries again.
func (driver) HandleError(_ context.Context, err error, message string) {
	fmt.Fprintln(os.Stderr, "empty:", message+":", err)
}
