package collect

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// calm is the least time between two calls of show: when a large job starts, hundreds of objects change at once.
const calm = time.Second

// Watch reads kinds of objects as [Reader.Read] does and calls show. It calls show again after changes of these
// objects, at most once per second. Show gets new clusters, and the same objects. Watch returns nil when the context
// ends, and the first error of show. It cannot watch Nodes.
func (r Reader) Watch(ctx context.Context, show func(*model.Cluster) error, about Kind, others ...Kind) error {
	first, kinds, err := r.readable(ctx, about, others)
	if err != nil {
		return err
	}
	if err := show(first); err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	var stores []cache.Store
	for _, kind := range kinds {
		store, err := r.follow(ctx, kind, changed)
		if err != nil {
			return err
		}
		stores = append(stores, store)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		c := &model.Cluster{
			Now: time.Now(), Unread: slices.Clone(first.Unread), DriverNamespace: first.DriverNamespace,
			Minor: first.Minor,
		}
		for i, kind := range kinds {
			fill(c, kind, stores[i].List())
		}
		if err := show(c); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(calm):
		}
	}
}

// follow keeps a store up to date, and returns when it is complete. The channel changed gets a value after each change.
func (r Reader) follow(ctx context.Context, kind Kind, changed chan<- struct{}) (cache.Store, error) {
	core, dra := r.Client.CoreV1().RESTClient(), r.Client.ResourceV1().RESTClient()
	var lw *cache.ListWatch
	var example runtime.Object
	switch kind {
	case Claims:
		lw, example = listWatch(dra, kind, r.Namespace, r.Claims), &resourceapi.ResourceClaim{}
	case Slices:
		lw, example = listWatch(dra, kind, "", metav1.ListOptions{}), &resourceapi.ResourceSlice{}
	case Classes:
		lw, example = listWatch(dra, kind, "", metav1.ListOptions{}), &resourceapi.DeviceClass{}
	case Rules:
		var err error
		if lw, example, err = r.watchRules(ctx); err != nil || lw == nil {
			return cache.NewStore(cache.MetaNamespaceKeyFunc), err
		}
	case Templates:
		lw, example = listWatch(dra, kind, r.Namespace, metav1.ListOptions{}), &resourceapi.ResourceClaimTemplate{}
	case Events:
		lw, example = listWatch(core, kind, r.Namespace, metav1.ListOptions{FieldSelector: warnings}), &corev1.Event{}
	case EmptyNodes:
		lw = listWatch(core, Events, metav1.NamespaceDefault, metav1.ListOptions{FieldSelector: emptyNodes})
		example = &corev1.Event{}
	case Pods:
		lw, example = listWatch(core, kind, "", metav1.ListOptions{LabelSelector: model.DriverSelector}), &corev1.Pod{}
	case UserPods:
		lw, example = listWatch(core, Pods, r.Namespace, r.UserPods), &corev1.Pod{}
	default:
		return nil, fmt.Errorf("watch %s: this kind cannot be watched", kind)
	}
	informer := cache.NewSharedIndexInformer(lw, example, 0, nil)
	changes := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { signal(changed) },
		UpdateFunc: func(any, any) { signal(changed) },
		DeleteFunc: func(any) { signal(changed) },
	}
	if _, err := informer.AddEventHandler(changes); err != nil {
		return nil, fmt.Errorf("watch %s: %w", kind, err)
	}
	go informer.RunWithContext(ctx)
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	return informer.GetStore(), nil
}

func listWatch(client cache.Getter, kind Kind, namespace string, selected metav1.ListOptions) *cache.ListWatch {
	return cache.NewFilteredListWatchFromClient(client, string(kind), namespace, func(o *metav1.ListOptions) {
		o.LabelSelector, o.FieldSelector = selected.LabelSelector, selected.FieldSelector
	})
}

func signal(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default: // one is waiting
	}
}

// fill copies the objects of a store into a cluster.
func fill(c *model.Cluster, kind Kind, objects []any) {
	switch kind { // an empty list, not nil, if there are none
	case UserPods:
		c.UserPods = []corev1.Pod{}
	case Templates:
		c.Templates = []resourceapi.ResourceClaimTemplate{}
	}
	if kind == Rules {
		c.Rules = rulesOf(objects)
	}
	for _, object := range objects {
		switch o := object.(type) {
		case *resourceapi.ResourceClaim:
			c.Claims = append(c.Claims, *o)
		case *resourceapi.ResourceSlice:
			c.Slices = append(c.Slices, *o)
		case *resourceapi.DeviceClass:
			c.Classes = append(c.Classes, *o)
		case *resourceapi.ResourceClaimTemplate:
			c.Templates = append(c.Templates, *o)
		case *corev1.Event:
			c.Events = append(c.Events, *o)
		case *corev1.Pod:
			if kind == Pods {
				c.Pods = append(c.Pods, *o)
			} else {
				c.UserPods = append(c.UserPods, *o)
			}
		}
	}
}
