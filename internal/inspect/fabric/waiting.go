package fabric

import (
	"context"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/why"
)

// maxExplained bounds the pods that a picture explains.
const maxExplained = 50

// Waiting are pods of one owner that wait with the same request.
type Waiting struct {
	Owner string
	Pods  int
	// Summary and Text are what kubectl rdma why says of the first one.
	Summary, Text string
}

// explain asks why of one pod of each owner and request.
func (b *builder) explain(ctx context.Context, pods []lists.Pod) error {
	search, stop := context.WithTimeout(ctx, b.Search)
	defer stop()
	known := map[string]*Waiting{}
	for i := range pods {
		p := &pods[i]
		if p.Status != string(corev1.PodPending) {
			continue
		}
		key, err := request(p)
		if err != nil {
			return err
		}
		switch {
		case known[key] != nil:
			known[key].Pods++
			continue
		case len(b.Waiting) == maxExplained, search.Err() != nil:
			b.Unexplained++
			continue
		}
		answer, err := why.Explain(search, b.Cluster, *p.Question())
		if model.TimeIsOver(err) && ctx.Err() == nil {
			b.Unexplained++
			continue
		}
		if err != nil {
			return err
		}
		var said strings.Builder
		if err := answer.WriteText(&said, false); err != nil {
			return err
		}
		known[key] = &Waiting{Owner: p.Owner(), Pods: 1, Summary: answer.Summary, Text: said.String()}
		b.Waiting = append(b.Waiting, known[key])
	}
	return ctx.Err()
}

// request identifies the owner of a pod, and what it asks for.
func request(p *lists.Pod) (string, error) {
	spec := &p.Question().Pod.Spec
	asks := []any{p.Owner(), spec.ResourceClaims, spec.NodeSelector}
	for i := range spec.Containers {
		asks = append(asks, spec.Containers[i].Resources)
	}
	key, err := json.Marshal(asks)
	return string(key), err
}
