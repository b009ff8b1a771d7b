#!/bin/sh
# Prints a document with other links. They lead to packaged files, which all stand in one directory, or to the project's
# site:
#
#   packaging/relink.sh DIRECTORY SITE <DOCUMENT
#
# DIRECTORY of the checkout has the document: "" or "docs/". SITE is where a file of the checkout can be read.
set -eu
sed -E "
	s,\]\(([^]):#/[:space:]][^]):[:space:]]*\)),](@$1\1,g
	s,\(@docs/\.\./,(@,g
	s,\(@docs/([^/)#]+\.(md|svg|png)[)#]),(\1,g
	s,\(@(README\.md[)#]),(\1,g
	s,\(@,($2,g"
