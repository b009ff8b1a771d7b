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
	// Do things.
	//
	// ```text
	// Do things.
	//
	// Exit codes:
	//   0  done
	// ```
	//
	// ## tool list
	//
	// List things.
	//
	//     tool list [flags]
	//
	// ```sh
	// tool list
	// tool list -o json
	// ```
	//
	// | flag | value | default | |
	// |---|---|---|---|
	// | `--all` |  |  | all of them |
	// | `-o`, `--output` | FORMAT | `table` | FORMAT: table\|json |
}
