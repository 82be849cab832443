#!/bin/sh
# Runs other people's suites ($1 = their folder) against a lone node of bin/oncemq.
# Tests of what the README lists as not there yet stand in test/known/, one a line.
set -u
suites=${1:?folder of the suites}
[ -d "$suites" ] || { echo "suites: skipped, $suites is not there"; exit 0; }
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'kill $node 2>/dev/null; wait $node 2>/dev/null; rm -rf "$dir"' EXIT INT TERM
port=21672
"$here/../bin/oncemq" serve --dev --data "$dir/data" --listen 127.0.0.1:$port --peer-listen 127.0.0.1:21673 --peers 1=127.0.0.1:21673 \
	--admin 127.0.0.1:21674 >"$dir/out" 2>"$dir/log" &
node=$!
for _ in $(seq 100); do
	grep -q ready "$dir/out" && break
	kill -0 $node 2>/dev/null || { cat "$dir/log"; exit 1; }
	sleep 0.1
done
failed=0
for suite in ${SUITES:-goamqp proton rhea}; do
	echo "== $suite"
	KNOWN="$here/known/$suite.txt" bash "$suites/$suite.sh" 127.0.0.1 $port || failed=1
done
exit $failed
