// Package pcie reads how well a function's PCIe links work: rate and lanes of each link up to the root, and the errors
// that the kernel has counted (AER). It is a leaf: a function of a /sys.
package pcie
