// Package importrules checks the architecture: what a package may import, what a
// program may link, which functions only some packages may call, and how many
// methods a type may have.
//
// The rules themselves, with their reasons, stand in testdata/rules.yaml. Each of
// them is also applied to a package below testdata/planted that breaks it, so that
// a rule which finds nothing is known to look.
//
// Packages are patterns as the go command has them: a path, or a path with /...
// for all below it as well. "..." alone is every package outside of the standard
// library. Test files are not looked at, nor are packages that import testing:
// those are tools of tests.
package importrules
