// Program library says what one release of the CDI library finds in directories of specs: for each line of standard
// input, a list of directories, it prints the devices, or that the library panics.
package main

import (
	"encoding/json"
	"os"
)

type answer struct {
	Devices []string
	Panics  bool
}

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var dirs []string
	for in.Decode(&dirs) == nil {
		if err := out.Encode(ask(dirs)); err != nil {
			panic(err)
		}
		dirs = nil
	}
}

func ask(dirs []string) (a answer) {
	defer func() {
		if recover() != nil {
			a = answer{Panics: true}
		}
	}()
	return answer{Devices: look(dirs)}
}
