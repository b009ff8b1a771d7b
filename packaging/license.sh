#!/bin/bash
# Prints the SPDX expression (https://spdx.org/licenses) of the licenses in texts: "Apache-2.0 AND MIT". Look-alikes with
# one sentence more or less (0BSD, MIT-0, BSD-4-Clause) are not told apart.
#
#   packaging/license.sh FILE...
set -euo pipefail
declare -A found=()
# has ID PHRASE PHRASE: records ID if the text has both phrases, the second after the first, and reports whether.
has() { if [[ $text == *$2*$3* ]]; then found[$1]=; else return 1; fi; }
forms='redistribution and use in source and binary forms'
for file in "$@"; do
	text=$(<"$file")
	read -rd '' -a words <<<"${text,,}" || : # it reads to the end
	text=${words[*]}
	has Apache-2.0 'apache license' 'version 2.0' || :
	has MIT 'permission is hereby granted, free of charge, to any person obtaining a copy' '' || :
	has ISC 'permission to use, copy, modify, and' 'distribute this software for any purpose with or without fee' || :
	has MPL-2.0 'mozilla public license' 'version 2.0' || :
	has BSD-3-Clause "$forms" 'used to endorse' || has BSD-2-Clause "$forms" 'this list of conditions' || :
done
[ ${#found[@]} -gt 0 ] || exit 0
ids=$(printf '%s\n' "${!found[@]}" | LC_ALL=C sort)
echo "${ids//$'\n'/ AND }"
