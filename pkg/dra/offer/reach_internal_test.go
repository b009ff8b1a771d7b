package offer

import (
	"errors"
	"testing"
	"time"

	"github.com/shoenig/test"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestReach: only a second yes says that no policy binds the driver, and only a refusal takes it back.
func TestReach(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("the driver on node a may not write a ResourceSlice of another node"))
	unknown := apierrors.NewServiceUnavailable("starting")
	var r reach
	for i, step := range []struct {
		answer  error
		unbound bool
		soon    bool
	}{{unknown, false, false}, {refused, false, false}, {nil, false, true}, {refused, false, false}, {nil, false, true}, {unknown, false, false}, {nil, true, false}, {unknown, true, false}, {refused, false, false}} {
		again := r.judge(step.answer)
		test.True(t, r.unbound.Load() == step.unbound && (again <= time.Minute) == step.soon,
			test.Sprintf("step %d: unbound %t, again in %v; want %+v", i, r.unbound.Load(), again, step))
	}
}
