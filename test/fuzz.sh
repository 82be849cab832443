#!/bin/sh
# Runs every fuzz target of the module in turn, $1 seconds each, and lists them at
# the end. Exit status 1 if one found something (its crasher lies in testdata/fuzz).
# ONLY=text takes the packages whose path has that text; PARALLEL=n the workers.
set -u
seconds=${1:-60}
go=${GO:-go}
failed=0
done=""
for file in $(grep -rl --include='*_test.go' '^func Fuzz' . | grep -v '^./test/' | sort); do
	dir=$(dirname "$file")
	case $dir in *${ONLY:-}*) ;; *) continue ;; esac
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		echo "== $dir $target for $seconds s"
		if "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s" -fuzzminimizetime 5x ${PARALLEL:+-parallel $PARALLEL} "$dir"; then
			done="$done
ok   $dir $target"
		else
			failed=1
			done="$done
FAIL $dir $target"
		fi
	done
done
echo "fuzzed $seconds s each:$done"
exit $failed
