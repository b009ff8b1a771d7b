// Package lists shows the nodes, devices, claims and pods of a cluster, as values for programs and as tables.
package lists

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// Columns makes a table of columns. Those after "wide" are for wide output only.
func Columns(names ...string) *metav1.Table {
	t := &metav1.Table{}
	priority := int32(0)
	for _, name := range names {
		if name == "wide" {
			priority = 1
			continue
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions,
			metav1.TableColumnDefinition{Name: name, Type: "string", Priority: priority})
	}
	return t
}

// maxCell is how many bytes of a cell a table shows: all problems of a pod, each with a message of somebody else.
const maxCell = 8 << 10

// Row adds a row to a table. An empty text becomes "-", and what a terminal would act on is escaped.
func Row(t *metav1.Table, cells ...any) {
	for i, c := range cells {
		s, ok := c.(string)
		if ok && s == "" {
			cells[i] = "-"
		} else if ok {
			cells[i] = text.Terminal(text.Bound(s, maxCell))
		}
	}
	// The printer needs an object in each row, but does not use it here.
	object := runtime.RawExtension{Object: &metav1.PartialObjectMetadata{}}
	t.Rows = append(t.Rows, metav1.TableRow{Cells: cells, Object: object})
}

// Users returns the pods of a claim, and its PodGroups as "podgroup/NAME".
func (c *Claim) Users() []string {
	out := slices.Clone(c.Pods)
	for _, group := range c.PodGroups {
		out = append(out, "podgroup/"+group)
	}
	return out
}
