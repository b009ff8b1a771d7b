package text

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table writes rows in columns below a header, whose cells have tabs between them. It escapes
// the cells of the rows, and shows an empty one as "-". It writes nothing if there are no rows.
func Table(w io.Writer, header string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, header)
	for _, row := range rows {
		cells := Cells(row...)
		for i, cell := range cells {
			cells[i] = cmp.Or(cell, "-")
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}
