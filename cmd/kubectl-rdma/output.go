package main

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// apiVersion is the version of the output of -o json and similar formats. It is not an API of the cluster.
const apiVersion = "kubectl.rdma.dev/v1alpha1"

// output has the streams, and the flags for the output format.
type output struct {
	genericiooptions.IOStreams
	format    string
	noHeaders bool
	sortBy    string
	sortKeys  []string
	printer   printers.ResourcePrinter // nil for a format that the command writes itself
}

// newOutput adds the flags to a command, which rejects an unknown format before it sends a request. own are the formats
// that the command writes itself. The first one is the default.
func newOutput(streams genericiooptions.IOStreams, cmd *cobra.Command, own ...string) *output {
	o := &output{IOStreams: streams}
	objects, templates := genericclioptions.NewJSONYamlPrintFlags(), genericclioptions.NewKubeTemplatePrintFlags()
	templates.AddFlags(cmd)
	formats := slices.Concat(own[1:], objects.AllowedFormats(), templates.AllowedFormats())
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "output `FORMAT`, one of: "+strings.Join(formats, ", "))
	complete(cmd, "output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	if own[0] == "table" {
		cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "print no headers")
	}
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if o.sortBy != "" && !slices.Contains(o.sortKeys, o.sortBy) {
			return cli.Usagef("--sort-by %q: want one of: %s", o.sortBy, strings.Join(o.sortKeys, ", "))
		}
		if o.format == "" || slices.Contains(own, o.format) {
			return nil
		}
		o.printer, err = objects.ToPrinter(o.format)
		if genericclioptions.IsNoCompatiblePrinterError(err) {
			o.printer, err = templates.ToPrinter(o.format)
		}
		if genericclioptions.IsNoCompatiblePrinterError(err) {
			return genericclioptions.NoCompatiblePrinterError{OutputFormat: &o.format, AllowedFormats: formats}
		}
		return err
	}
	return o
}

// printList prints items of a kind as a list, by name, or as the table that the function table makes. Instead of an
// empty table it prints the text nothing on standard error.
func printList[T any](o *output, k kind[T], items []T, nothing string, table func([]T) *metav1.Table) error {
	items = append([]T{}, items...) // an empty list, not null
	if compare := k.keys[o.sortBy]; compare != nil {
		slices.SortStableFunc(items, compare)
	}
	switch {
	case o.printer != nil:
		return o.object(k.name+"List", map[string]any{"items": items})
	case len(items) == 0:
		o.nothing(nothing)
		return nil
	case o.format == "name":
		for _, item := range items {
			text.Fprintf(o.Out, "%s\n", k.id(item))
		}
		return nil
	}
	return printers.NewTablePrinter(printers.PrintOptions{Wide: o.format == "wide", NoHeaders: o.noHeaders}).
		PrintObj(table(items), o.Out)
}

// noResources is kubectl's text for an empty list.
const noResources = "No resources found"

// noNodes is for a cluster without the driver, which kubectl rdma nodes is asked for.
const noNodes = noResources + ": no node runs the driver or publishes RDMA devices. To see others, name them"

// nothingIn returns words for an empty list, or others if more would have been read with more rights.
func nothingIn(c *model.Cluster, words string) string {
	if len(c.Unread) > 0 {
		return "Nothing found in what could be read"
	}
	return words
}

// noneIn is kubectl's text for a namespace, and for all of them.
func noneIn(namespace string) string {
	if namespace == metav1.NamespaceAll {
		return noResources
	}
	return noResources + " in " + namespace + " namespace."
}

// object prints a value with its kind in a format for programs.
func (o *output) object(kind string, value any) error {
	raw, err := stdjson.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	object := map[string]any{}
	if err := json.Unmarshal(raw, &object); err != nil {
		return fmt.Errorf("decode %s: %w", kind, err)
	}
	object["apiVersion"], object["kind"] = apiVersion, kind
	var out bytes.Buffer
	if err := o.printer.PrintObj(&unstructured.Unstructured{Object: object}, &out); err != nil {
		return err
	}
	switch clean := text.Clean(out.String()); {
	case o.format == "json" && !clean:
		return text.JSON(o.Out, object)
	case o.format == "yaml" && !clean:
		return text.YAML(o.Out, object)
	}
	// Templates and paths are not escaped, as in kubectl.
	_, err = out.WriteTo(text.Unwrap(o.Out))
	return err
}

// nothing prints words on standard error if there is nothing to show, unless the format is for programs.
func (o *output) nothing(words string) {
	if o.printer == nil {
		fmt.Fprintln(o.ErrOut, words)
	}
}
