package traffic

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
)

// Save keeps the record of a node. It replaces the record of an earlier test, and no other ConfigMap.
func (c *Cluster) Save(ctx context.Context, r *Record) error {
	want, err := r.ConfigMap()
	if err != nil {
		return err
	}
	maps := c.Client.CoreV1().ConfigMaps(c.Namespace)
	is, err := maps.Get(ctx, want.Name, metav1.GetOptions{})
	switch {
	case answer.Gone(err, corev1.Resource("configmaps"), want.Name):
		_, err = maps.Create(ctx, want, metav1.CreateOptions{})
	case err == nil && is.Labels[Label] != labelResults:
		err = errors.New("it is not one of kubectl rdma test, and stays as it is")
	case err == nil:
		want.ResourceVersion = is.ResourceVersion
		_, err = maps.Update(ctx, want, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("keep the result in ConfigMap %s/%s: %w", c.Namespace, want.Name, err)
	}
	return nil
}

// ReadRecords reads the records of a namespace by node, and returns what cannot be read as texts.
func ReadRecords(ctx context.Context, client kubernetes.Interface, namespace string) (
	records map[string]*Record, unread []string, _ error) {
	records = map[string]*Record{}
	o := metav1.ListOptions{LabelSelector: Label + "=" + labelResults, Limit: 500}
	for {
		page, err := answer.Listed(client.CoreV1().ConfigMaps(namespace).List(ctx, o))
		if err != nil {
			return nil, nil, fmt.Errorf("list the results of tests: %w", err)
		}
		for i := range page.Items {
			r, err := ReadRecord(&page.Items[i])
			if err != nil {
				unread = append(unread, err.Error())
				continue
			}
			records[r.Node] = r
		}
		if o.Continue = page.Continue; o.Continue == "" || len(records)+len(unread) >= maxRecords {
			return records, unread, nil
		}
	}
}
