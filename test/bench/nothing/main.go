// Command nothing is the floor of programs: it does nothing.
package main

func main() {}
