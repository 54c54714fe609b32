#!/bin/sh
# Runs autopilot.yaml from cron, one at a time, and says something only when a person is needed.
#
#     0 4 * * 1-5  /srv/project/autopilot-cron.sh
#
# cron gives neither a PATH nor a key. The key stands in key.env beside this file, mode 0600, as
# ANTHROPIC_API_KEY=...
set -u
here=$(cd -- "$(dirname -- "$0")" && pwd) || exit 78
PATH=/opt/autopilot/bin:/usr/local/bin:/usr/bin:/bin
AUTOPILOT_HOME=${AUTOPILOT_HOME:-$here/.autopilot}
export PATH AUTOPILOT_HOME
mkdir -p "$AUTOPILOT_HOME" || exit 78
set -a
# shellcheck disable=SC1091
. "$here/key.env" || exit 77
set +a
cd "$here" || exit 78

# The lock goes with the process: after a crash nobody has to remove anything.
exec 9> "$AUTOPILOT_HOME/cron.lock" || exit 78
flock --nonblock 9 || { echo "autopilot: the last run is still at work" >&2; exit 75; }

attempt=1
while :; do
    code=0
    # The lock is not for the children: one that outlives the run would hold it.
    autopilot run autopilot.yaml --quiet --artifacts "$here/autopilot-run" \
        > "$AUTOPILOT_HOME/answer.md" 2> "$AUTOPILOT_HOME/last.log" 9>&- || code=$?
    if [ "$code" -ne 75 ] || [ "$attempt" -ge 3 ]; then
        break
    fi
    attempt=$((attempt + 1))
    sleep "${AUTOPILOT_RETRY_S:-600}" 9>&-
done

case $code in
    0) ;;
    3 | 4 | 9) echo "autopilot: a cap was reached; the work so far is in $here/autopilot-run" ;;
    *)
        echo "autopilot: exit code $code"
        cat "$AUTOPILOT_HOME/last.log"
        ;;
esac
autopilot sessions prune --older-than 30d > "$AUTOPILOT_HOME/pruned.log" 2>&1 9>&- || :
exit "$code"
