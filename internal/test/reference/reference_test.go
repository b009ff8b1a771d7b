package reference_test

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/reference"
)

func ExamplePage() {
	root := &cobra.Command{Use: "tool", Short: "Do things", Long: "Do things.\n\nExit codes:\n  0  done"}
	list := &cobra.Command{Use: "list", Short: "List things", Example: "  tool list\n  tool list -o json",
		Run: func(*cobra.Command, []string) {}}
	list.Flags().StringP("output", "o", "table", "`FORMAT`: table|json")
	list.Flags().Bool("all", false, "all of them")
	root.AddCommand(list)
	fmt.Printf("%s", reference.Page(root))
	// Output:
	// # tool: commands, flags, exit codes
	//
	// What `tool --help` and the help of its commands print.
	//
	// ## tool
	//
	// Do things
	//
	// ### Synopsis
	//
	// ```text
	// Do things.
	//
	// Exit codes:
	//   0  done
	// ```
	//
	// ### Options
	//
	// ```
	//   -h, --help   help for tool
	// ```
	//
	// ### SEE ALSO
	//
	// * [tool list](#tool-list)	 - List things
	//
	// ## tool list
	//
	// List things
	//
	// ```
	// tool list [flags]
	// ```
	//
	// ### Examples
	//
	// ```
	// tool list
	// tool list -o json
	// ```
	//
	// ### Options
	//
	// ```
	//       --all             all of them
	//   -h, --help            help for list
	//   -o, --output FORMAT   FORMAT: table|json (default "table")
	// ```
	//
	// ### SEE ALSO
	//
	// * [tool](#tool)	 - Do things
}
