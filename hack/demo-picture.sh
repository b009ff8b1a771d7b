#!/bin/bash
# make demo-picture: docs/demo.svg and docs/why.svg, of what make demo prints. The first shows its steps in turn.
#
#   hack/demo-picture.sh [FILE]   # FILE has the output of make demo; without it, make demo runs
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
demo=$(realpath "${1:-$dir/demo}")
cd "$(dirname "$0")/.."
columns=112
[ $# -gt 0 ] || make --no-print-directory demo | tee "$demo"

# Random names, times and ages differ between runs of one commit. They become the same ones.
sed -E 's/(-hca-)[a-z0-9]{5}\b/\1x7k2p/g; s/(dra-driver-rdma-)[a-z0-9]{5}\b/\1m4v9q/
	s/[A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2} /Nov 23 12:00 /; s/  [0-9]+s$/  9s/; s/^  //' "$demo" |
	awk -v dir="$dir" -v columns=$columns '
		# show writes a line in a colour. A long line continues on the next one, with a larger indent.
		function show(line, colour, indent, end) {
			match(line, /^ */)
			indent = sprintf("%*s", RLENGTH + 2, "")
			while (length(line) > columns && match(substr(line, 1, columns + 1), /[^ ].* /)) {
				end = RSTART + RLENGTH - 1
				print "\033[" colour "m" substr(line, 1, end - 1) "\033[0m" >file
				line = indent substr(line, end + 1)
			}
			print "\033[" colour "m" line "\033[0m" >file
		}
		/^[0-9]+\. / { file = dir "/" $1 "txt"; text = 1; sub(/^[0-9]+\. /, ""); show($0, "1;97"); next }
		!file { next }
		text && !NF { text = 0 }
		text { show($0, "38;5;110"); next }
		/^\$ / { show($0, "92"); next }
		{ show($0, "0") }'

# Step 2 has nothing to see. All frames are as high as the longest of them.
cat "$dir/3.txt" >>"$dir/1.txt"
steps=(1 4 5) seconds=10 most=0
for step in "${steps[@]}"; do
	lines=$(wc -l <"$dir/$step.txt")
	most=$((lines > most ? lines : most))
done

picture() { # picture STEP LINES FILE
	go run github.com/charmbracelet/freeze@v0.2.2 --language ansi --window --border.radius 8 --line-height 1.2 \
		--width $((columns * 17 / 2 + 40)) --height $(($2 * 17 + 50)) --font.size 14 \
		--font.family "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" --output "$3" "$dir/$1.txt"
	sed -i -E 's/^<svg width="([0-9.]+)" height="([0-9.]+)"/& viewBox="0 0 \1 \2"/' "$3" # it scales
}
for step in "${steps[@]}"; do
	picture "$step" $most "$dir/$step.svg"
done
picture 5 "$(wc -l <"$dir/5.txt")" "$dir/why.svg"

{
	# Where nothing moves, one sees the last step.
	grep -om1 "^<svg[^>]*>" "$dir/1.svg"
	echo "<style>g.step{opacity:0;animation:step $((${#steps[@]} * seconds))s step-end infinite}g.step:last-of-type{opacity:1}"
	echo "@keyframes step{0%{opacity:1}$((100 / ${#steps[@]} + 1))%,100%{opacity:0}}"
	echo "@media (prefers-reduced-motion:reduce){g.step{animation:none}}</style>"
	delay=$((-${#steps[@]} * seconds))
	for step in "${steps[@]}"; do
		echo "<g class=\"step\" style=\"animation-delay:${delay}s\">"
		sed '/^<?xml/d; /^<!DOCTYPE/d' "$dir/$step.svg"
		echo "</g>"
		delay=$((delay + seconds))
	done
	echo "</svg>"
} >"$dir/demo.svg"
mv "$dir/demo.svg" "$dir/why.svg" docs
