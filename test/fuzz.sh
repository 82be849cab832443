#!/bin/sh
# Runs every fuzz target of the module in turn, $1 seconds each, and lists them at
# the end. Exit status 1 if one found something (its crasher lies in testdata/fuzz).
# ONLY=text takes the packages whose path has that text; PARALLEL=n the workers.
set -u
seconds=${1:-60}
go=${GO:-go}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
failed=0
list=""

# clean DIR TARGET: no input was found that fails. Go's fuzzer now and then ends with
# "context deadline exceeded" and nothing else when a worker is at work as its time
# runs out (golang.org/issue/48591); a real find names the file of the failing input.
clean() {
	"$go" test -run '^$' -fuzz "^$2\$" -fuzztime "${seconds}s" -fuzzminimizetime 5x ${PARALLEL:+-parallel $PARALLEL} "$1" >"$out" 2>&1
	code=$?
	cat "$out"
	[ $code = 0 ] && return 0
	grep -q '^    context deadline exceeded$' "$out" && ! grep -q 'Failing input written' "$out"
}

for file in $(grep -rl --include='*_test.go' '^func Fuzz' . | grep -v '^./test/' | sort); do
	dir=$(dirname "$file")
	case $dir in *${ONLY:-}*) ;; *) continue ;; esac
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		echo "== $dir $target for $seconds s"
		if clean "$dir" "$target"; then
			list="$list
ok   $dir $target"
		else
			failed=1
			list="$list
FAIL $dir $target"
		fi
	done
done
echo "fuzzed $seconds s each:$list"
exit $failed
