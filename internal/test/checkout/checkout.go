// Package checkout finds the checkout of the project that a test, or a program of the test bed, runs in.
package checkout

import (
	"errors"
	"os"
	"path/filepath"
)

// Root is the top directory of the checkout that the working directory is in. It does not ask where a file was compiled
// from: with -trimpath, which lets all checkouts share what is compiled, no file knows.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "deployments", "helm")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the checkout: no directory above the working directory has deployments/helm: " +
				"run inside the checkout")
		}
		dir = parent
	}
}
