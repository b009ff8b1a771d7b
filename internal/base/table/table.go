// Package table writes tables for a terminal.
package table

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/quote"
)

// Write writes rows in columns below a header, whose cells have tabs between them. It escapes
// the cells of the rows, and shows an empty one as "-". It writes nothing if there are no rows.
func Write(w io.Writer, header string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, header)
	for _, row := range rows {
		cells := quote.Cells(row...)
		for i, cell := range cells {
			cells[i] = cmp.Or(cell, "-")
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}
