// Command empty is the program that BenchmarkStart compares rdma-hook with.
package main

func main() {}
