package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// AppendNew appends a value unless the list has it.
func AppendNew[T comparable](list []T, value T) []T {
	if slices.Contains(list, value) {
		return list
	}
	return append(list, value)
}

// Few joins the first names of a list.
func Few(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ",")
	}
	return fmt.Sprintf("%s,+%d", strings.Join(names[:most], ","), len(names)-most)
}

// List joins the first names of a list: "pod a", "pods a, b and 7 more".
func List(names []string, noun string, most int) string {
	first := text.First(names, most, ", ")
	switch {
	case noun == "":
		return first
	case len(names) == 1:
		return noun + " " + first
	}
	return noun + "s " + first
}
