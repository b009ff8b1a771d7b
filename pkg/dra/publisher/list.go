package publisher

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
)

const (
	// listInterval is the shortest time between two comparisons with a list. The longest one is half as long again. For
	// 5,000 nodes these are 200 lists a second. The API server answers them from an index of its cache, with a few
	// hundred bytes (docs/adr/0046).
	listInterval = 20 * time.Second
	// listTime is the time limit for a list.
	listTime = 10 * time.Second
	// doubtTime is the time after which a difference counts: a watch is not that late.
	doubtTime = 2 * time.Second
)

// untilList returns the time until the next comparison. Its jitter spreads the lists of the nodes.
func (p *Publisher) untilList() time.Duration {
	if p.doubt {
		return min(doubtTime, p.every)
	}
	return wait.Jitter(p.every, 0.5)
}

// compareWithList compares the mirror with the slices that the API server lists. If they differ twice, or the server's
// revision went back, the mirror is dropped, and the watch begins again with a list. A watch alone is not enough. An API
// server whose etcd was restored from a backup has an earlier revision. A watch that goes on from a later one reports
// nothing until the server is there again, and never reports which objects have gone.
func (p *Publisher) compareWithList(ctx context.Context) {
	mirrored := p.server.latest()
	if mirrored == nil {
		return
	}
	list, err := p.list(ctx)
	if err != nil {
		return // the client reports trouble with the API server
	}
	before := p.revision
	p.revision = list.ResourceVersion
	var root error
	switch order, err := resourceversion.CompareResourceVersion(list.ResourceVersion, before); {
	case before != "" && err == nil && order < 0:
		root = fmt.Errorf("the API server has data of an earlier time (revision %s, before %s), "+
			"as after the restoration of a backup", list.ResourceVersion, before)
	case mirrors(mirrored, list.Items) || mirrors(p.server.latest(), list.Items):
		p.doubt = false
		return
	case !p.doubt:
		p.doubt = true
		return
	default:
		root = fmt.Errorf("the API server has other slices than its watch reported, as after the restoration of a backup")
	}
	klog.FromContext(ctx).Info("Listing the ResourceSlices again", "pool", p.cfg.Node, "reason", root.Error())
	p.doubt = false
	p.lose(root, root)
	p.server.forget()
	if p.cfg.ServerRestored != nil {
		p.cfg.ServerRestored()
	}
}

// list lists the metadata of the driver's slices of the node. The answer is as new as the request.
func (p *Publisher) list(ctx context.Context) (*metav1.PartialObjectMetadataList, error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	body, err := p.cfg.Client.ResourceV1().RESTClient().Get().Resource("resourceslices").
		Param("fieldSelector", p.cfg.selector()).MaxRetries(0).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	return answer.Listed(list, json.Unmarshal(body, list))
}

// mirrors reports whether these slices are the listed objects, in their versions.
func mirrors(mirrored map[string]*resourceapi.ResourceSlice, listed []metav1.PartialObjectMetadata) bool {
	for i := range listed {
		s := mirrored[listed[i].Name]
		if s == nil || s.UID != listed[i].UID || s.ResourceVersion != listed[i].ResourceVersion {
			return false
		}
	}
	return len(mirrored) == len(listed)
}

// Has returns the names of the devices that the scheduler finds in the pool: those of a complete pool, as the API server
// last reported it.
func (p *Publisher) Has() map[string]bool {
	stored := p.server.latest()
	pool := resourceapi.ResourcePool{}
	for _, s := range stored {
		if s.Spec.Pool.Name == p.cfg.Node && s.Spec.Pool.Generation > pool.Generation {
			pool = s.Spec.Pool
		}
	}
	out, count := map[string]bool{}, int64(0)
	for _, s := range stored {
		if s.Spec.Pool.Name == p.cfg.Node && s.Spec.Pool.Generation == pool.Generation {
			count++
			for i := range s.Spec.Devices {
				out[s.Spec.Devices[i].Name] = true
			}
		}
	}
	if count < pool.ResourceSliceCount {
		return map[string]bool{}
	}
	return out
}
