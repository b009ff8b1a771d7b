//go:build tools

// Package lint pins the programs that hack/lint.sh and hack/test.sh build.
package lint

import (
	_ "github.com/rhysd/actionlint/cmd/actionlint"
	_ "gotest.tools/gotestsum"
	_ "honnef.co/go/tools/cmd/staticcheck"
)
