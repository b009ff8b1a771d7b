// Package planted breaks the rule "process": it reads the environment and ends the process.
package planted

import (
	"log"
	system "os"
)

func end() {
	if system.Getenv("HOME") == "" {
		system.Exit(1)
	}
	log.Fatal("no such luck")
}

// Neither of these is a package.
func free() {
	system := struct{ Exit func(int) }{}
	system.Exit(1)
}
