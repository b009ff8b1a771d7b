#!/bin/bash
# Prints the SPDX identifiers (https://spdx.org/licenses) of the licenses in a text. Look-alikes with one sentence
# more or less (0BSD, MIT-0, BSD-4-Clause) are not told apart.
#
#   packaging/license.sh FILE
set -euo pipefail
text=$(tr '[:upper:]' '[:lower:]' <"$1" | tr -s '[:space:]' ' ')
has() { if [[ $text == *$2*$3* ]]; then echo "$1"; else return 1; fi; }
forms='redistribution and use in source and binary forms'
has Apache-2.0 'apache license' 'version 2.0' || :
has MIT 'permission is hereby granted, free of charge, to any person obtaining a copy' '' || :
has ISC 'permission to use, copy, modify, and' 'distribute this software for any purpose with or without fee' || :
has MPL-2.0 'mozilla public license' 'version 2.0' || :
has BSD-3-Clause "$forms" 'used to endorse' || has BSD-2-Clause "$forms" 'this list of conditions' || :
