package main

import "github.com/spf13/cobra"

func captureCommand(*string) *cobra.Command { return &cobra.Command{Use: "capture"} }
func importCommand(*string) *cobra.Command  { return &cobra.Command{Use: "import"} }
