//go:build tools

// Package lint pins the programs that hack/lint.sh builds.
package lint

import _ "honnef.co/go/tools/cmd/staticcheck"
