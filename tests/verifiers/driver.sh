# Stands behind the shell of docs/webhooks.md: one case a line in, its parts with bars between, one verdict a line out. That
# form leaves the age to the reader, so the driver has a clock of its own.
now=$(date +%s)
body=$(mktemp)
trap 'rm -f "$body"' EXIT
while IFS='|' read -r secret id sent given short encoded; do
    printf %s "$encoded" | openssl base64 -d -A >"$body"
    standard=foreign
    case $sent in '' | *[!0-9]* | ????????????*) age=301 ;; *) age=$((now - sent)) ;; esac
    if [ "${age#-}" -le 300 ] && verify "$secret" "$id" "$sent" "$given" "$body"; then standard=ours; fi
    if verify_body "$secret" "$short" "$body"; then short=ours; else short=foreign; fi
    echo "$standard $short"
done
