#!/bin/sh
# Turns a version as git describe prints it into one that dpkg and rpm take and order right:
#
#   v1.2.3          1.2.3
#   v1.2.3-rc.1     1.2.3~rc.1        before 1.2.3
#   v1.2.3-4-gabc   1.2.3+4.gabc      after 1.2.3
#   abc, devel      0.0.0+abc         no tag: before everything
set -eu
number='v?([0-9]+\.[0-9]+\.[0-9]+)' candidate='([0-9A-Za-z.]+)' commits='([0-9]+)-(g[0-9a-f]+)'
echo "$1" | sed -E '
	s/-dirty$/.dirty/
	t version
	:version
	'"s/^$number-$commits/\1+\2.\3/; t
	s/^$number-$candidate-$commits/\1~\2+\3.\4/; t
	s/^$number\.dirty$/\1+dirty/; t
	s/^$number-$candidate$/\1~\2/; t
	s/^$number$/\1/; t"'
	s/[^0-9A-Za-z.]+/./g
	s/^/0.0.0+/'
