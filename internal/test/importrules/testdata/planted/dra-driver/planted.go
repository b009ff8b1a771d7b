// Command planted breaks the rule "dra-driver": it links kubectl's flags and printers.
package main

import "k8s.io/cli-runtime/pkg/genericclioptions"

func main() { _ = genericclioptions.NewConfigFlags(true) }
