package drivertest

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// ConfigOf is the way to the API server of a kubeconfig, as the driver goes it: without client-go's limit of 5 requests a
// second, and in protobuf.
func ConfigOf(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	return config, nil
}

// ClientOf returns a client of that server.
func ClientOf(kubeconfig string) (kubernetes.Interface, error) {
	config, err := ConfigOf(kubeconfig)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}
