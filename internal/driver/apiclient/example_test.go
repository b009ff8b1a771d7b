package apiclient_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/apiclient"
)

func ExampleTroubles() {
	client, troubles, err := apiclient.New(&rest.Config{Host: "http://127.0.0.1:1"}) // nobody is there
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err = client.CoreV1().Nodes().Get(context.Background(), "node1", metav1.GetOptions{}); err == nil {
		fmt.Println("somebody is there")
	}
	for _, trouble := range troubles.Current() {
		fmt.Println(trouble.Request, trouble.Reason)
	}
	// Output: get nodes unreachable
}
