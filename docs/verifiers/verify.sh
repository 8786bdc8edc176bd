#!/usr/bin/env bash
# Checks an evidence packet offline:  bash verify.sh PACKET KEYFILE [--timestamp-roots FILE] [--witness-policy FILE]
#
# KEYFILE holds the log's verifier key as GET /v1/ledger/key returns it. Get it from the service, never from the packet.
# With the roots of time-stamp authorities that you trust (PEM), it also checks who made the packet's time-stamps; with a trust
# policy (C2SP tlog-policy), that the witnesses which it demands have cosigned the ledger.
# Exit code: 0 verified, 1 not verified, 2 wrong usage, a file that cannot be read, or a document made of a packet.
# Needs bash, jq 1.6 or newer and openssl 3. The format is described in docs/evidence-format.md.
#
# It checks everything that was recorded. It does not recompute what the policy gives, nor the sentences: see the last line.
set -euo pipefail
export LC_ALL=C OPENSSL_CONF=/dev/null
refuse() { echo "NOT VERIFIED. $*"; exit 1; }
usage() { echo "usage: verify.sh PACKET KEYFILE [--timestamp-roots FILE] [--witness-policy FILE] ($*)" >&2; exit 2; }
files=() roots='' policy=''
named() { [[ ${2-} ]] || usage "$1 names a file: give one after it"; }
while (($#)); do
    case $1 in
        --timestamp-roots) named "$@" && roots=$2 && shift ;;
        --witness-policy) named "$@" && policy=$2 && shift ;;
        *) files+=("$1") ;;
    esac
    shift
done
[[ ${#files[@]} == 2 ]] || usage "two files"
set -- "${files[@]}"
for file in "$@" ${roots:+"$roots"} ${policy:+"$policy"}; do
    [[ -r $file ]] || usage "$file cannot be read"
    [[ -f $file ]] || usage "$file cannot be read: it is read more than once, so give a file, not a folder or a pipe"
done
case $(head -c 4 "$1" | od -An -tx1 | tr -d ' \n') in
    3c*) what='a page' ;;
    25504446) what='a PDF' ;;
    504b0304) what='a ZIP archive' ;;
    *) what='' ;;
esac
[[ -z $what ]] || usage "$1 is $what and not a packet: take its packet.json, and check that"
packet=$1 scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

hex() { od -An -v -tx1 | tr -d ' \n'; }
raw() {                                                                 # of hex
    local at text=''
    for ((at = 0; at < ${#1}; at += 2)); do text+="\\x${1:at:2}"; done
    printf %b "$text"
}
sha256() { openssl dgst -sha256 -r | { read -rn 64 hash && echo "$hash"; }; }

# small HEX: whether a point is of small order, whatever its sign bit: a signature by or with one of them proves nothing.
small() {
    case ${1:0:62}$(printf %02x $((16#${1:62:2} & 127))) in
        0[01]00000000000000000000000000000000000000000000000000000000000000 | e[cde]ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f) ;;
        26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05 | c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a) ;;
        *) return 1 ;;
    esac
}
# key_of KIND VKEY: the 32 bytes of a key, in hex, if its id is its own.
key_of() {
    local name=${2%%+*} id=${2#*+} key
    id=${id%%+*} key=$(openssl base64 -d -A <<<"${2#*+*+}" | hex)
    [[ ${#key} == 66 && $key == "$1"* && ${#name} -le 255 && $({ printf '%s\n' "$name"; raw "$key"; } | sha256 | cut -c1-8) == "$id" ]] &&
        ! small "${key:2}" && echo "${key:2}"
}

# --- The key
vkey_pattern='(?<vkey>[^+\s\p{Cc}]+\+[0-9a-f]{8}\+[A-Za-z0-9+/]{44})'
[[ $(tr -d '\0' <"$2" | wc -c) == $(wc -c <"$2") ]] || usage "not a key"    # jq takes a NUL for the end.
vkey=$(jq -Rrse --arg p "\\A\\s*$vkey_pattern\\s*\\z" 'capture($p).vkey' "$2") || usage "not a key"
name=${vkey%%+*} id=${vkey#*+} key=$(key_of 01 "$vkey") || usage "not an Ed25519 key, or its id is not its own"
id=${id%%+*}
{ raw 302a300506032b6570032100; raw "$key"; } >"$scratch/key"

# --- The roots
# vouches FILE: whether a certificate is one of an authority for certificates.
vouches() { openssl x509 -in "$1" -noout -ext basicConstraints 2>/dev/null | grep -q CA:TRUE; }
if [[ $roots ]]; then
    awk -v to="$scratch/root." '/-----BEGIN CERTIFICATE-----/ { n++ } n { print >(to n) }' "$roots"
    [[ -e $scratch/root.1 ]] || usage "$roots holds no certificate"
    for root in "$scratch"/root.*; do
        vouches "$root" || usage "a certificate in $roots is not one of an authority"
    done
fi

# verify TEXTFILE HEX [KEY]: whether the key made this signature of the text.
verify() {
    small "${2:0:64}" && return 1
    raw "$2" >"$scratch/signature"
    openssl pkeyutl -verify -pubin -keyform DER -inkey "${3:-$scratch/key}" -rawin -in "$1" -sigfile "$scratch/signature" >/dev/null 2>&1
}

# --- The file. jq takes much that is not JSON, and of two equal names in an object it keeps the last without a word. So the
# tokens are checked first: only strings, numbers and words that JSON has, and as many colons as there will be members.
# Some programs take more than U+10FFFF for UTF-8, but UTF-16 has no place for it. Newer versions of jq keep a number as it is
# spelled until it is added to.
(($(wc -c <"$packet") <= 4194304)) || refuse "form: the file has more than 4 MiB"
iconv -f UTF-8 -t UTF-16 "$packet" >/dev/null 2>&1 || refuse "form: not UTF-8"
[[ $(tr -d '\t\n\r -\377' <"$packet" | wc -c) == 0 ]] || refuse "form: a control character"
if sed -E 's/\\\\//g; s/\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}//g' "$packet" | grep -q '\\u[dD][89a-fA-F]'; then
    refuse "form: half a surrogate pair"
fi
sed -E $'s/"([^"\\\\\t\r]|\\\\["\\\\\\/bfnrt]|\\\\u[0-9a-fA-F]{4})*"/S/g' "$packet" >"$scratch/tokens"
if tr '{}[],: \t\r' '\n' <"$scratch/tokens" |
    grep -Evq '^(|S|true|false|null|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?)$'; then
    refuse "form: not JSON"
fi
jq -sr 'if length == 1 then .[0] | ([.. | objects | length] | add), (walk(if type == "number" then . + 0 else . end) | tojson) else error end' "$packet" >"$scratch/packet" 2>/dev/null ||
    refuse "form: not one JSON document"
[[ $(head -1 "$scratch/packet") == "$(tr -cd : <"$scratch/tokens" | wc -c)" ]] || refuse "form: a name occurs twice in one object"
sed -i.bak 1d "$scratch/packet"

# --- What jq must know of the format. "?" marks members that may be absent.
cat >"$scratch/format.jq" <<'JQ'
# "?" marks members that may be absent, "~" is "or null", "*" an array, "+" one that is not empty, "|" stands between words. A
# member without a type has the one that its name tells, see type_of.
def parties: "organizer|talent|partner|mutual";
def events: "booking.created|booking.protected|resolution.created";
def reasons: "changed_plans|schedule_conflict|illness|venue_unavailable|weather|force_majeure|no_show|non_payment|safety|other";
def failures: "dns_error|blocked_address|connection_refused|connection_reset|timeout|tls_error|redirect_refused|http_4xx|http_5xx|gone|payload_too_large|throttled|protocol_error|headers_too_large|excessive_answer|our_fault";
def shapes: {
  packet: "acceptances:*object booking:object completeness?:completeness createdAt deliveries:*delivery entries:*entry evaluation:~evaluation formerTerms:*terms items:*object log:log partnerName policy:~policy policyHash:~hash resolution:~object signature stream summary:summary terms:terms termsDisclosures:*text timestamps?:*timestamp type:bookguard.evidence/1 withheld:*ip|metadata|note|organizer|talent|userAgent",
  timestamp: "anchor:~entry checkpoint consistency:*string response",
  completeness: "entry:entry path:*step", step: "bit:u8 hash", map: "mapRoot:hex treeSize:integer writtenAt", anchor: "anchoredAt responseHash treeSize:integer",
  log: "origin vkey", entry: "body:body disclosures:*disclosure leaf proof salt", body: "kind sd:digests v:bookguard.event/1",
  disclosure: "name salt value:any", text: "disclosureHash text version",
  terms: "adopted?:hash assumed:*policy_assumed_from_library|time_zone_assumed_utc|backdated date offsets:*whole schedule:*span source:~booking|named|partner_default_for_event_type|partner_default|library until:whole zone",
  former: "at previousEventDate reached:~amount",
  delivery: "attempts:u32 endpointId:~end eventId history:*attempt recorded:*notification status:delivered|failed|pending|no_endpoints type:\(events) url:~url",
  attempt: "error:~string startedAt statusCode:~u16", summary: "headline offsets:*whole story:*string timeline:*moment version",
  moment: "at entry:~integer text when", person: "id:string name", document: "kind mediaType? name? sha256", amount: "amount currency minorUnits:integer",
  notification: "attempts:u32 bodySha256:hex endpointId error?:\(failures) eventId outcome:delivered|given_up responseSha256?:hex seq:integer settledAt statusCode?:u16 type:\(events)",
  resolution: "bookingId canceledAt canceledBy:\(parties) decision?:decision effectiveAt? evaluation:evaluation evidenceGrade:record_only|ledger_anchored partnerId reason?:\(reasons) resolutionId status:final|pending_review|decided summary supersedes?",
  decision: "decidedAt decidedBy rationale refund:amount",
  "booking.created": "amountPaid?:number bookingId bookingValue:number createdAt currency:code eventDate:time eventType metadata?:strings organizer:person partnerId talent:person termsHash timeZone?",
  "booking.protected": "protectedAt termsHash",
  "booking.rescheduled": "agreedBy:*\(parties) at? eventDate:time former:former rescheduledAt terms:terms timeZone?",
  "terms.accepted": "acceptedAt at bookingId disclosureHash disclosureVersion ip? method party:\(parties) userAgent?",
  "booking.canceled": "agreedRefund?:amount bookingId canceledAt canceledBy:\(parties) effectiveAt? evidence?:+document evidenceCount?:integer note? reason?:\(reasons)",
  "evidence.added": "addedAt amount?:amount at? bookingId itemId kind:contract|message|photo|check_in|payment|refund|other note? party?:\(parties) reference? sha256? title",
  "resolution.created": "resolution:resolution", "webhook.settled": "notification:notification",
  "evidence.erased": "bookingId erasedAt legalBasis:no_longer_needed|consent_withdrawn|objection|unlawful|legal_obligation|contract_ended|other requestRef? values:*values",
  values: "entry:integer names:*decidedBy|eventType|evidence|ip|metadata|method|note|organizer|rationale|reference|requestRef|sha256|talent|title|userAgent",
  leaf: "commit prev:hex seq:integer stream t:time v:bookguard.leaf/1"};
# Decimals of a currency (ISO 4217).
def decimals: if IN("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF") then 0
  elif IN("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND") then 3 elif IN("CLF", "UYW") then 4 else 2 end;

def need(holds; why): if holds then . else error(why) end;
def matches($pattern): type == "string" and test("\\A(" + $pattern + ")\\z");
# Without mktime, which takes the last second of 1969 for an error. Returns milliseconds since 1970.
def time: need(matches("(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z"); "form: not a time")
  | [.[:4], .[5:7], .[8:10], .[11:13], .[14:16], .[17:19], .[20:23] | tonumber] as [$year, $month, $day, $hour, $minute, $second, $millis]
  | [31, (if $year % 4 == 0 and ($year % 100 != 0 or $year % 400 == 0) then 29 else 28 end), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as $months
  | need($month >= 1 and $month <= 12 and $day >= 1 and $day <= $months[$month - 1] and $hour < 24 and $minute < 60 and $second < 60; "form: not a time")
  | ($year - 1 | . * 365 + (. / 4 | floor) - (. / 100 | floor) + (. / 400 | floor)) + ([$months[:$month - 1][], $day] | add) - 719163
  | (((. * 24 + $hour) * 60 + $minute) * 60 + $second) * 1000 + $millis;
def is_whole: type == "number" and . == floor;
def type_of: {bookingId: "bkg", partnerId: "ptn", resolutionId: "res", supersedes: "res", itemId: "itm", eventId: "evt", endpointId: "end"}[.] //
  if . == "at" or endswith("At") then "time" elif . == "sha256" or endswith("Hash") then "hash" else "string" end;
def has_shape($kind; $check):   # "$type" as a parameter would hide the function type.
  def is_a($of):
    if $of[:1] == "~" then . == null or is_a($of[1:])
    elif $of[:1] == "*" then type == "array" and (map(is_a($of[1:])) | all)
    elif $of[:1] == "+" then is_a("*" + $of[1:]) and length > 0
    elif $of == "any" then true
    elif $of == "code" then matches("[A-Z]{3}")
    elif $of == "string" then type == "string"
    elif $of == "strings" then type == "object" and length > 0 and (map(type == "string") | all)
    elif $of == "digests" then type == "object" and (map(matches("[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")) | all)
    elif $of == "object" then type == "object"
    elif $of == "whole" then is_whole
    elif $of == "integer" then is_whole and . >= 0
    elif $of | IN("u8", "u16", "u32") then is_whole and . >= 0 and . < {u8: 256, u16: 65536, u32: 4294967296}[$of]
    elif $of == "number" then type == "number" and . >= 0 and (. + 0 | tojson | test("^[0-9]+(\\.[0-9]{1,4})?$"))
    elif $of == "time" then (time | true)
    elif $of == "hash" then matches("sha256:[0-9a-f]{64}")
    elif $of == "hex" then matches("[0-9a-f]{64}")
    elif $of == "url" then matches("[^:/\\\\?#@]+://[^/\\\\?#@]*")
    elif $of == "policy" then type == "object" and (.policyId | type == "string") and (.version | is_whole and . >= 0)
    elif $of == "evaluation" then type == "object" and (.bookingId | is_a("bkg")) and (.evaluationStatus | type == "string")
    elif $of == "span" then type == "array" and length == 5 and (.[0] | type == "string") and (.[1:3] | is_a("*whole")) and (.[3:] | is_a("*~integer"))
    elif $of | IN("bkg", "ptn", "res", "itm", "evt", "end") then matches($of + "_[0-9a-f]{32}")
    elif shapes | has($of) then (has_shape($of; $check) | true)
    else . as $word | type == "string" and ($of | split("|") | any(. == $word)) end;
  . as $value | (shapes[$kind] | split(" ") | map(split(":"))) as $types | ($types | map(.[0])) as $names
  | need(type == "object" and ($names | map(select(endswith("?") | not)) - ($value | keys)) == []
      and (($value | keys) - ($names | map(rtrimstr("?")))) == []; "\($check): this is not a \($kind) with its members")
  | need([$types[] | (.[0] | rtrimstr("?")) as $name | (.[1] // ($name | type_of)) as $type
      | ($value | has($name) | not) or ($value[$name] | is_a($type))] | all; "\($check): a member of a \($kind) is not of its type")
  | if $kind == "amount" then (.currency | decimals) as $decimals
      | need((.currency | matches("[A-Z]{3}")) and .minorUnits <= 999999999999999
          and .amount == (.minorUnits | tostring | if $decimals == 0 then . else ("0" * ([$decimals + 1 - length, 0] | max) // "") + . | .[:-$decimals] + "." + .[-$decimals:] end);
          "\($check): amount and minorUnits are not one amount")
    elif $kind == "booking.created" then (.currency | decimals) as $decimals
      | need([.bookingValue, .amountPaid // 0 | . + 0 | tojson / "."] | map((.[0] | length) + $decimals <= 15 and (.[1] // "" | length) <= $decimals) | all;
          "\($check): bookingValue or amountPaid has more decimals than its currency, or more than 15 digits with them")
    else . end;

# Canonical text (RFC 8785). Three traps: jq escapes U+007F, which RFC 8785 does not, sorts names by code point instead of
# UTF-16 code unit, and writes 0.00001 as 1e-05. Adding 0 makes a double of a number, which newer versions of jq would write as it was spelled.
def string: "\"" + (split("\u007f") | map(tojson | .[1:-1]) | join("\u007f")) + "\"";
def utf16: explode | map(if . > 65535 then (. - 65536 | 55296 + (. / 1024 | floor), 56320 + . % 1024) else . end);
def small: capture("^(?<sign>-?)(?<whole>[0-9])(\\.(?<part>[0-9]+))?e-0*(?<power>[0-9]+)$") | .part //= "" | (.power | tonumber) as $power
  | if $power <= 6 then .sign + "0." + "0" * ($power - 1) + .whole + .part else .sign + .whole + (if .part == "" then "" else "." + .part end) + "e-" + .power end;
def canonical:
  if type == "object" then "{" + (to_entries | sort_by(.key | utf16) | map((.key | string) + ":" + (.value | canonical)) | join(",")) + "}"
  elif type == "array" then "[" + (map(canonical) | join(",")) + "]"
  elif type == "string" then string
  elif type == "number" then if . == 0 then "0" else . + 0 | tojson | if test("e-") then small else . end end
  else tojson end;
def same($other): canonical == ($other | canonical);

# Base64 of both alphabets to hex. The patterns leave no stray bits.
def b64_32: matches("[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=");
def url_32: matches("[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]");
def base64: matches("([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=|[A-Za-z0-9+/][AQgw]==)");
def hex_of_base64: rtrimstr("=") | rtrimstr("=")
  | [explode[] | if . >= 97 then . - 71 elif . == 95 then 63 elif . >= 65 then . - 65 elif . >= 48 and . <= 57 then . + 4
      elif . == 47 then 63 else 62 end]
  | [range(0; length; 4) as $i | .[$i:$i + 4] | (length - 1) as $n | . + [0, 0, 0]
      | [.[0] * 4 + (.[1] / 16 | floor), .[1] % 16 * 16 + (.[2] / 4 | floor), .[2] % 4 * 64 + .[3]][:$n][]]
  | map("0123456789abcdef" as $digits | (. / 16 | floor) as $high | (. % 16) as $low | $digits[$high:$high + 1] + $digits[$low:$low + 1]) | add;

# A note: its text, the hex of each signature by the key with this name and id, and the number of signatures.
def lines_by($name; $id; $check): need(type == "string"; "\($check): not a note") | split("\n\n") as $parts | ($parts[-1] | split("\n")) as $lines
  | need(($parts | length) > 1 and ($lines | length) > 1 and ($lines | length) <= 101 and utf8bytelength <= 262144 and $lines[-1] == "" and ($parts[:-1] | join("") | test("[\\x00-\\x09\\x0b-\\x1f]") | not);
      "\($check): not a signed note")
  | [$lines[:-1][] | need(matches("— [^\\s+\\p{Cc}]+ ([A-Za-z0-9+/]{4})+([A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=|[A-Za-z0-9+/][AQgw]==)")
      and (.[-9:] | test("^ ......==$") | not) and (split(" ")[1] | utf8bytelength) <= 255; "\($check): not a signature line") | split(" ")
      | select(.[1] == $name and (.[2] | hex_of_base64)[:8] == $id)] as $own
  | {text: (($parts[:-1] | join("\n\n")) + "\n"), own: ($own | map(.[2] | hex_of_base64 | .[8:])), count: ($lines | length - 1)};
def note($name; $id; $check): lines_by($name; $id; $check)
  | need((.own | map(length)) == [128]; "\($check): not signed by the key") | {text, signature: .own[0], count};

# The values that can be erased of an entry, by its kind, and what stands in for those that an entry cannot be without.
def erasable: {"booking.created": ["eventType", "metadata", "organizer", "talent"], "terms.accepted": ["ip", "method", "userAgent"],
  "booking.canceled": ["evidence", "note"], "resolution.created": ["decidedBy", "rationale"], "evidence.added": ["note", "reference", "sha256", "title"],
  "evidence.erased": ["requestRef"]};
def stands_in: {organizer: {id: "erased", name: "erased"}, talent: {id: "erased", name: "erased"}, eventType: "erased", method: "erased", title: "erased",
  decidedBy: "erased", rationale: "erased"};
# Joins a decision and its words, which are values of their own so that they can be erased.
def joined($kind): if $kind == "resolution.created" and (has("decidedBy") or has("rationale")) then
    need((.resolution | type) == "object" and (.resolution.decision | type) == "object" and ([.decidedBy, .rationale | type] | unique) == ["string"]
        and (.resolution.decision | has("decidedBy") or has("rationale") | not); "booking: a decision has its words twice, or not all of them")
    | .resolution.decision += {decidedBy, rationale} | del(.decidedBy, .rationale) else . end;
# What later entries of a packet say was erased of each: [entry, name].
def erased: .entries as $entries | reduce ($entries | to_entries[] | select(.value.body.kind == "evidence.erased")) as $erasure ([];
  ($erasure.value.disclosures | map({key: .name, value}) | from_entries | has_shape("evidence.erased"; "disclosures")) as $said
  | need(($said.values | map(.entry)) == ($said.values | map(.entry) | unique) and $said.values != [] and $said.values[-1].entry < $erasure.key;
      "disclosures: an erasure names nothing before it, or not in order")
  | reduce $said.values[] as $one (.; [$one.names[] | [$one.entry, .]] as $more
    | need($one.names != [] and $one.names == ($one.names | unique) and . - $more == . and $one.names - (erasable[$entries[$one.entry].body.kind] // []) == []
        and $one.names - ($entries[$one.entry].body.sd | keys) == []
        and (($one.names | index("evidence")) == null or ($entries[$one.entry].body.sd | has("evidenceCount"))); "disclosures: what is erased was erased before, was never there, or cannot be erased")
    | . + $more));
def made_at: need(matches("evt_[0-9a-f]{32}"); "form: not an event's id")
  | reduce (.[4:16] | explode[]) as $digit (0; . * 16 + (if $digit > 57 then $digit - 87 else $digit - 48 end));
def is_stream: matches("[A-Za-z0-9_-]{21}[AQgw]");
def leaf: (.leaf | @base64d) as $text | ($text | fromjson) as $leaf
  | need(.leaf == ($text | @base64) and ($leaf | canonical) == $text and ($leaf | has_shape("leaf"; "proof") | (.commit | url_32) and .seq < 9007199254740992
      and (.stream | is_stream) and (.seq == 0) == (.prev == "0" * 64) and (.t | time) >= 0);
    "proof: a leaf is not written as leaves are")
  | {text: $text} + $leaf;
# Sizes and indexes are below 2^64, where numbers of jq and bash end at 2^53 and 2^63. So they are texts of twenty digits, which sort.
def twenty: "0" * 20 + (if type == "number" then . + 0 | tostring else . end) | .[-20:];
def size: need(matches("0|[1-9][0-9]{0,19}"); "proof: not a size") | twenty | need(. <= "18446744073709551615"; "proof: the log has more entries than it can have");
def proof: need(type == "string" and contains("\n\n"); "proof: not a proof") | split("\n\n") as $parts | ($parts[0] | split("\n")) as $head
  | ($parts[1] | split("\n")) as $log
  | need(($parts | length) == 3 and $head[0] == "c2sp.org/tlog-proof@v1" and ($head[1] | startswith("index ")) and all($head[2:][]; b64_32)
      and ($head | length) <= 66 and ($log | length) >= 3 and ($log[2] | b64_32); "proof: not a proof")
  | {index: ($head[1][6:] | size), path: ($head[2:] | map(hex_of_base64)), origin: $log[0], size: ($log[1] | size),
     root: ($log[2] | hex_of_base64), checkpoint: ($parts[1:] | join("\n\n"))}
  | need(.index < .size; "proof: the log has no such entry");

# A trust policy: the keys of its logs; by name, the key of each witness and the members of each group; and its quorum.
def policy($vkey): need(utf8bytelength <= 65536 and (test("[\\x00-\\x08\\x0b-\\x1f\\x7f]") | not); "the policy is too long, or no text")
  | def vkey: need(matches($vkey); "a key of the policy cannot be read");
    reduce (split("\n")[] | [splits("[ \t]+")] | map(select(. != "")) | select(length > 0 and (.[0][:1] != "#"))) as $line
      ({logs: [], members: {}, free: [], quorum: []}; .members as $members
      | $line[1] as $name | $line[3:] as $of | ($line | length) as $words
      | if $line[0] == "log" and ($words | IN(2, 3)) then .logs += [$name | vkey]
        elif $line[0] == "quorum" and $words == 2 then need($name == "none" or ($members | has($name)); "the quorum is not defined") | .quorum += [$name]
        else need($words > 2 and $name != "none" and ($members | has($name) | not); "a line of the policy cannot be read")
          | if $line[0] == "witness" and $words <= 4 then .members[$name] = {key: ($line[2] | vkey | split("+") | {name: .[0], id: .[1], key: (.[2:] | join("+"))})}
            elif $line[0] == "group" and $words > 3 and $of - .free == [] and ($of | unique | length) == ($of | length)
              and ($line[2] | matches("any|all|[0-9]+")) then
              .members[$name] = {of: $of, least: ($line[2] | if . == "any" then 1 elif . == "all" then $of | length else tonumber end)} | .free -= $of
              | need(.members[$name].least | . >= 1 and . <= ($of | length); "the number of a group cannot be")
            else error("a line of the policy cannot be read") end
          | .free += [$name] end)
  | [.members[].key.key // empty] as $keys | (.logs | map(split("+")[2:] | join("+"))) as $logs
  | need((.quorum | length) == 1 and all($keys, $logs; length == (unique | length)); "a policy has one quorum, and each key once")
  | need([$keys, $logs, .members | length] | .[0] <= 256 and .[1] <= 256 and .[2] - .[0] <= 256; "a policy has at most 256 logs, witnesses and groups each");
def reached($have; $members): $members[.] as $member
  | if $member.key then IN($have[]) else ([$member.of[] | select(reached($have; $members))] | length) >= $member.least end;
JQ

# --- The policy: its keys are checked as the ledger's was
echo null >"$scratch/policy.json"
if [[ $policy ]]; then
    iconv -f UTF-8 -t UTF-16 "$policy" >/dev/null 2>&1 || usage "the policy is not UTF-8"
    jq -L "$scratch" -Rs --arg vkey "$vkey_pattern" 'include "format"; policy($vkey)' "$policy" >"$scratch/policy.json" 2>"$scratch/why" || usage "$(sed 's/^jq: error ([^)]*): //; q' "$scratch/why")"
    jq -r '("01 " + .logs[]), (.members[].key | values | "04 \(.name)+\(.id)+\(.key)")' "$scratch/policy.json" >"$scratch/keys"
    while read -r kind text; do
        key_of "$kind" "$text" >/dev/null || usage "a key in the policy is not one of its kind, or its id is not its own"
    done <"$scratch/keys"
fi

# reason: why jq refused the packet. What it says in words of its own, not of the checks, is that it could not walk through it.
reason() {
    sed -nE '1s/^jq: error \([^)]*\): ([a-z]+: )/\1/p' "$scratch/why" | grep . || echo "form: a part of the packet is not of its form"
}

# --- The plan: jq takes the packet apart and lists what must be hashed, one task in a line.
cat >"$scratch/plan.jq" <<'JQ'
include "format";
need([.. | numbers | select(fabs >= 9007199254740992)] == []; "form: a number is too large") | has_shape("packet"; "form")
| need(.stream | is_stream; "form: the stream is not one") | need(.timestamps != []; "form: it names no time-stamps, and says that it has some")
| need(.withheld == (.withheld | unique); "disclosures: the names of withheld values are out of order, or one is given twice")
| .withheld as $withheld | erased as $erased
| need(.log == {origin: $name, vkey: $vkey}; "key: the packet names another ledger or key")
| need(.entries != []; "signature: there are no entries")
| (.entries[0].proof | proof | .checkpoint) as $checkpoint | (.entries[0].proof | proof | .index) as $first
| need($policy[0] == null or $policy[0].logs == [] or any($policy[0].logs[]; . == $vkey); "witnesses: the policy trusts other logs")
| need(all(.entries[]; .proof | proof | .checkpoint == $checkpoint and .origin == $name); "chain: the proofs have different checkpoints")
| ["content", (del(.signature) | canonical)],
  ["note", (.signature | note($name; $id; "signature") | need(.count == 1; "signature: more than one") | .signature, (.text | @base64))],
  ["note", ($checkpoint | note($name; $id; "proof") | .signature, (.text | @base64))],
  (range(.entries | length) as $at | .entries[$at] | leaf as $leaf | (.proof | proof) as $proof
    | need((.disclosures | map(.name)) == (.disclosures | map(.name) | unique) and (.disclosures | map(.name)) == (.body.sd | keys) - $withheld - [$erased[] | select(.[0] == $at) | .[1]];
        "disclosures: a value is missing, not recorded, given twice or out of order")
    | need(.body.sd | has("evidence") or (has("evidenceCount") | not); "disclosures: documents are counted that were never named")
    | need((.salt | url_32) and all(.disclosures[].salt; url_32); "commitment: a salt is not 32 bytes")
    | ["leaf", $proof.root, $proof.index, $proof.size, ($proof.path | join(" ")), $leaf.text],
      ["hmac", "commitment", (.salt | hex_of_base64), ($leaf.commit | hex_of_base64), (.body | canonical)],
      (.body.sd as $sd | .disclosures[] | ["hmac", "disclosures", (.salt | hex_of_base64), ($sd[.name] | hex_of_base64), ([.name, .value] | canonical)])),
  # The map covers all entries, not itself, and has the stream with as many entries.
  (. as $packet | .completeness | values | .path as $path | .entry | leaf as $leaf | (.proof | proof) as $proof
    | (.disclosures | map({key: .name, value}) | from_entries | has_shape("map"; "complete")) as $map
    | need(.body.kind == "log.mapped" and $leaf.stream == "c3hEd-Jl-3HeP3CERv8uYg"; "complete: the entry does not commit to a map, or not where maps are")
    | need($proof.checkpoint == $checkpoint; "complete: the entry is proven under another state of the ledger")
    | need((.disclosures | map(.name)) == (.body.sd | keys) and (.disclosures | length) == 3 and (.salt | url_32) and all(.disclosures[].salt; url_32);
        "complete: the values are not those of a map")
    | need(($packet.entries[-1] | (.proof | proof | .index) < ($map.treeSize | twenty) and leaf.t <= $map.writtenAt) and ($map.treeSize | twenty) <= $proof.index and $map.writtenAt <= $leaf.t;
        "complete: the map is older than the last entry, or covers itself")
    | need(all($path[].hash; b64_32) and all(range(1; $path | length); $path[.].bit < $path[. - 1].bit); "complete: the path is not in order")
    | ["mapped", $proof.root, $proof.index, $proof.size, ($proof.path | join(" ")), $leaf.text],
      ["hmac", "complete", (.salt | hex_of_base64), ($leaf.commit | hex_of_base64), (.body | canonical)],
      (.body.sd as $sd | .disclosures[] | ["hmac", "complete", (.salt | hex_of_base64), ($sd[.name] | hex_of_base64), ([.name, .value] | canonical)]),
      ["map", $map.mapRoot, ($packet.stream | hex_of_base64), ($path | map("\(.bit):\(.hash | hex_of_base64)") | join(" "))]),
  ["stream", .stream], ["size", (.entries[-1].proof | split("\n\n")[1] | split("\n")[1])],
  (.policy | values | ["hash", "policy", canonical]),
  (.formerTerms + [.terms] | .[] | ["hash", "shown", canonical]),
  (.entries[] | select(.body.kind == "booking.rescheduled") | .disclosures[] | select(.name == "terms") | ["hash", "moved", (.value | canonical)]),
  (.termsDisclosures[].text | ["text", "texts", @base64]),
  ((.timestamps // []) as $stamps | range($stamps | length) as $i | $stamps[$i]
    | need(($stamps | length) <= 8 and (.anchor == null) == ($i == ($stamps | length) - 1); "timestamps: there are too many, or one is not renewed by the next")
    | (.checkpoint | note($name; $id; "timestamps")) as $note | ($note.text | split("\n")) as $head
    | ($checkpoint | split("\n")) as $now
    | need($head[0] == $name and ($head[1] | size) <= ($now[1] | size) and $head[1] != "0" and ($head[2] | b64_32) and all($head[:-1][]; . != "")
        and (.consistency | length <= 65 and all(.[]; b64_32)) and (.response | length <= 43692 and base64); "timestamps: one is not of its form")
    | need(($head[1] | size) > (if $i == 0 then $first else ($stamps[$i - 1].anchor.proof | proof | .index) end);
        "timestamps: one covers none of the entries, or not the one before it")
    | ["note", $note.signature, ($note.text | @base64)],
      ["stamp", ($head[1] | size), ($head[2] | hex_of_base64), ($now[1] | size), ($now[2] | hex_of_base64), (.consistency | map(hex_of_base64) | join(" ")),
        ($note.text | @base64), .response, (.anchor.disclosures // [] | map(select(.name == "responseHash") | .value)[0] // "-")],
      (.anchor | values | leaf as $leaf | (.proof | proof) as $proof
        | (.disclosures | map({key: .name, value}) | from_entries | has_shape("anchor"; "timestamps")) as $said
        | need(.body.kind == "log.anchored" and $proof.checkpoint == $checkpoint and (.disclosures | map(.name)) == ["anchoredAt", "responseHash", "treeSize"]
            and (.body.sd | keys) == ["anchoredAt", "responseHash", "treeSize"] and ($said.treeSize | twenty) == ($head[1] | size);
            "timestamps: an anchor commits to something else")
        | need((.salt | url_32) and all(.disclosures[].salt; url_32); "timestamps: a salt is not 32 bytes")
        | ["anchor", $proof.root, $proof.index, $proof.size, ($proof.path | join(" ")), $leaf.text],
          ["hmac", "timestamps", (.salt | hex_of_base64), ($leaf.commit | hex_of_base64), (.body | canonical)],
          (.body.sd as $sd | .disclosures[] | ["hmac", "timestamps", (.salt | hex_of_base64), ($sd[.name] | hex_of_base64), ([.name, .value] | canonical)]))),
  ($policy[0] // {members: {}} | .members | to_entries[] | select(.value.key) | .key as $member | .value.key as $key
    | ($checkpoint | lines_by($key.name; $key.id; "witnesses")) | select(.own != [])
    | need((.own | map(length)) == [144]; "witnesses: a cosignature of \($member) is not one")
    | ["cosigned", $member, $key.key, .own[0], (.text | @base64)])
| map(tostring | need(test("[\\x00-\\x1f]") | not; "form: a control character where none can be")) | join("\t")
JQ
jq -r -L "$scratch" --arg name "$name" --arg id "$id" --arg vkey "$vkey" --slurpfile policy "$scratch/policy.json" -f "$scratch/plan.jq" "$scratch/packet" >"$scratch/plan" 2>"$scratch/why" ||
    refuse "$(reason)"

# --- The hashes: signatures, proofs, commitments, digests
# Goes up one level: bash takes a number from 2^63 for a negative one, and would shift its sign along.
halve() { at=$(((at >> 1) & 0x7fffffffffffffff)) last=$(((last >> 1) & 0x7fffffffffffffff)); }
# hashed: the SHA-256 of each file in $scratch/in, as digest[NAME]. To start a process takes longer than to hash, so one does it for all.
digest=()
hashed() {
    local hash file
    while read -r hash file; do digest[${file#\*}]=$hash; done < <(cd "$scratch/in" && printf '%s\n' * | xargs openssl dgst -sha256 -r)
    rm -r "$scratch/in" && mkdir "$scratch/in"
}
# padded HEX BYTE: a key of 32 bytes, padded to a block of SHA-256, each byte XOR this one (RFC 2104)
padded() {
    local at word text='' rest=\\x$2\\x$2\\x$2\\x$2
    for ((at = 0; at < 64; at += 8)); do
        printf -v word %08x $((16#${1:at:8} ^ 16#$2$2$2$2))
        text+=\\x${word:0:2}\\x${word:2:2}\\x${word:4:2}\\x${word:6:2}
    done
    printf %b "$text$rest$rest$rest$rest$rest$rest$rest$rest"
}
# risen: the roots to which the paths lead from all leaves, as digest[TASK], by RFC 9162, 2.1.3.2; where one is not of the right
# length, lasts[TASK] is not 0.
ats=() lasts=() paths=()
risen() {
    local n at last sibling
    while [[ ${paths[*]} == *[!\ ]* ]]; do
        for n in "${!paths[@]}"; do
            [[ ${paths[n]} ]] || continue
            sibling=${paths[n]:0:64} paths[n]=${paths[n]:65} at=${ats[n]} last=${lasts[n]}
            if ((last == 0 || last == -1)); then
                : >"$scratch/in/$n"
                lasts[n]=-1
                continue
            fi
            if ((at & 1 || at == last)); then
                raw "01$sibling${digest[n]}" >"$scratch/in/$n"
                while ((!(at & 1) && at)); do halve; done
            else
                raw "01${digest[n]}$sibling" >"$scratch/in/$n"
            fi
            halve
            ats[n]=$at lasts[n]=$last
        done
        hashed
    done
}
# climbed STREAM COUNT HASH STEPS: the root of the map to which the steps (BIT:HASH, from the leaf) lead
climbed() {
    local key node step bit prefix digit sibling
    key=$(raw "$1" | sha256)
    node=$(raw "02$key$(printf %016x "$2")$3" | sha256)
    for step in $4; do
        bit=${step%%:*} sibling=${step#*:} digit=$((16#${key:${step%%:*}/4:1}))
        prefix=${key:0:bit/4}$(printf %x $((digit & (240 >> bit % 4) & 15)))$(printf %064d 0)
        if ((digit >> (3 - bit % 4) & 1)); then node=$sibling$node; else node=$node$sibling; fi
        node=$(raw "03$(printf %02x "$bit")${prefix:0:64}$node" | sha256)
    done
    echo "$node"
}
# continues SIZE ROOT NEWSIZE NEWROOT PATH, by RFC 9162, 2.1.4.2; the size is at most the new one
continues() {
    local at=$((10#$1 - 1)) last=$((10#$3 - 1)) root=$2 new_root=$4 path=$5 before after
    if ((at == last)); then
        [[ $root == "$new_root" && -z $path ]]
        return
    fi
    (((at + 1) & at)) || path="$root $path"     # A power of two is a subtree of its own.
    while ((at & 1)); do halve; done
    # shellcheck disable=SC2086
    set -- $path
    before=${1-} after=${1-}
    while (($# > 1)); do
        shift
        ((last)) || return 1
        if ((at & 1 || at == last)); then
            before=$(raw "01$1$before" | sha256) after=$(raw "01$1$after" | sha256)
            while ((!(at & 1) && at)); do halve; done
        else
            after=$(raw "01$after$1" | sha256)
        fi
        halve
    done
    ((last == 0)) && [[ $before == "$root" && $after == "$new_root" ]]
}
# stamped_at STAMP: its time, if that is one of the calendar
stamped_at() {
    openssl ts -reply -in "$scratch/stamp$1" -text 2>/dev/null | sed -n 's/^Time stamp: //p' | sed 's/\.[0-9]*//' |
        jq -Re 'strptime("%b %d %H:%M:%S %Y GMT") | mktime'
}
# strong FILE: whether a certificate's key is of a kind and length that proves something. Lengths of RSA are counted in whole bytes.
strong() {
    local key
    key=$(openssl x509 -in "$1" -noout -pubkey 2>/dev/null | openssl pkey -pubin -noout -text 2>/dev/null) || return
    if [[ $key =~ 'Public-Key: ('([0-9]{1,6})' bit)'.*Modulus: ]]; then
        ((BASH_REMATCH[1] > 2040 && BASH_REMATCH[1] <= 8192))
    else
        [[ $key =~ 'ASN1 OID: '(prime256v1|secp384r1)($|[[:space:]]) ]]
    fi
}
# hashed_well STAMP: whether each digest that its signer names is SHA-256, SHA-384 or SHA-512: that of what is signed, and that of the
# certificate where RFC 5035 lets it be named.
hashed_well() {
    openssl ts -reply -in "$scratch/stamp$1" -token_out | od -An -v -tu1 | jq -se '
        def der: if . == [] then [] else
            (if .[1] < 128 then [2, .[1]] else (.[1] - 126) as $start | [$start, (reduce .[2:$start][] as $digit (0; . * 256 + $digit))] end)
            as [$start, $size] | [{tag: .[0], of: .[$start:$start + $size]}] + (.[$start + $size:] | der) end;
        def field($n): der[$n].of;
        field(0) | field(1) | field(0) | field(-1) | field(0)
        | [field(2), (field(3) | der[].of | select(field(0) == [42, 134, 72, 134, 247, 13, 1, 9, 16, 2, 47]) | field(1)
            | field(0) | field(0) | field(0) | der[0] | select(.tag == 48).of)]
        | all(field(0) | IN([96, 134, 72, 1, 101, 3, 4, 2] + ([1], [2], [3])))'
}
# stamped STAMP: whether the response is a granted one over the text, and its one signature that of the certificate in it. Whose
# certificate that is, only a path to a root shows. -cades checks that the signature names the certificate. Of a critical extension,
# openssl says nothing. Nor does it mind what is not DER: that has no zero at the end of a fraction, and leaves out what is false. So
# whatever truth value an extension has, it is refused.
stamped() {
    local stamp=$scratch/stamp$1 token=$scratch/token$1
    (($(wc -c <"$stamp") <= 32768)) && openssl ts -reply -in "$stamp" -out "$token" && cmp -s "$stamp" "$token" &&
        [[ $(openssl ts -reply -in "$stamp" -text | sed -n 2p) == 'Status: Granted'* ]] && openssl ts -reply -in "$stamp" -token_out -out "$token" &&
        (($(openssl pkcs7 -inform DER -in "$token" -print_certs | grep -c BEGIN) <= 16)) &&
        openssl cms -verify -noverify -inform DER -in "$token" -signer "$token.pem" -out "$token.info" && [[ $(grep -c BEGIN "$token.pem") == 1 ]] &&
        openssl cms -verify -cades -no-CApath -no-CAstore -CAfile "$token.pem" -partial_chain -purpose any -no_check_time -inform DER -in "$token" -out "$token.info" &&
        openssl asn1parse -inform DER -in "$token.info" >"$token.text" && [[ $(sed -n '2s/.*INTEGER *://p' "$token.text") == 01 ]] &&
        sed -E '/d=1 .*GENERALIZEDTIME +:[0-9]{14}(\.[0-9]{0,8}[1-9])?Z$/d; /d=1 .*BOOLEAN +:255$/d' "$token.text" >"$token.odd" &&
        ! grep -Eq 'd=(1 .*(GENERALIZEDTIME|BOOLEAN)|3 .*BOOLEAN)' "$token.odd" && stamped_at "$1" >"$token.time" &&
        [[ $(sed -nE '1,8s/.*(OBJECT|OCTET STRING) *(\[HEX DUMP\])?://p' "$token.text" | tr 'A-F\n' 'a-f ') == *" sha256 $(sha256 <"$scratch/stamped$1") " ]]
}
# The first task is the whole packet. It is kept out of variables: in a long text without a tab, bash takes time that grows with
# the square of the length to find that there is none.
content=$(sed -n $'1s/^content\t//p' "$scratch/plan" | tr -d '\n' | openssl dgst -sha256 -binary | openssl base64)
sed 1d "$scratch/plan" >"$scratch/tasks"
# What is hashed does not depend on what is compared, so all hashes come first.
mkdir "$scratch/in"
salts=() tops=() leaf=() n=0
while IFS= read -r line; do
    task=${line%%$'\t'*} rest=${line#*$'\t'}
    more=${rest#*$'\t'}
    case $task in
        leaf | mapped | anchor)
            IFS=$'\t' read -r top index log path text <<<"${rest//$'\t\t'/$'\t-\t'}"    # "-": an empty path
            { printf '\0'; printf %s "$text"; } >"$scratch/in/$n"
            tops[n]=$top ats[n]=$((10#$index)) lasts[n]=$((10#$log - 1)) paths[n]=${path#-} ;;
        hmac)
            salts[n]=${more%%$'\t'*} more=${more#*$'\t'}
            { padded "${salts[n]}" 36; printf %s "${more#*$'\t'}"; } >"$scratch/in/$n" ;;
        hash) printf %s "$more" >"$scratch/in/$n" ;;
        text) openssl base64 -d -A <<<"$more" >"$scratch/in/$n" ;;
    esac
    n=$((n + 1))
done <"$scratch/tasks"
hashed
for n in "${!tops[@]}"; do leaf[n]=${digest[n]}; done
for n in "${!salts[@]}"; do { padded "${salts[n]}" 5c; raw "${digest[n]}"; } >"$scratch/in/$n"; done
hashed
risen
# proven TASK: whether its entry is in the log
proven() { [[ ${lasts[$1]} == 0 && ${digest[$1]} == "${tops[$1]}" ]]; }
stream='' size='' count=0 last='' leaves='' hashes='' stamps=0 cosigned='' n=-1
while IFS= read -r line; do
    n=$((n + 1)) task=${line%%$'\t'*} rest=${line#*$'\t'}
    first=${rest%%$'\t'*} more=${rest#*$'\t'}
    case $task in
        note)
            openssl base64 -d -A <<<"$more" >"$scratch/text"
            verify "$scratch/text" "$first" || refuse "signature: the key has not signed the packet, or not its checkpoint"
            [[ -e $scratch/said ]] || cp "$scratch/text" "$scratch/said" ;;
        leaf)
            proven "$n" || refuse "proof: an entry is not in the ledger"
            count=$((count + 1)) last=${leaf[n]} leaves+=\"$last\"$'\n' ;;
        mapped) proven "$n" || refuse "complete: the entry is not in the ledger" ;;
        map)
            IFS=$'\t' read -r root key path <<<"$rest"
            [[ $(climbed "$key" "$count" "$last" "$path") == "$root" ]] || refuse "complete: the map does not have exactly these entries of the booking" ;;
        anchor) proven "$n" || refuse "timestamps: an anchor is not in the ledger" ;;
        stamp)
            IFS=$'\t' read -r old root log now path text response anchored <<<"${rest//$'\t\t'/$'\t-\t'}"
            continues "$old" "$root" "$log" "$now" "${path#-}" || refuse "timestamps: the log does not continue the stamped checkpoint"
            stamps=$((stamps + 1))
            openssl base64 -d -A <<<"$text" >"$scratch/stamped$stamps"
            openssl base64 -d -A <<<"$response" >"$scratch/stamp$stamps"
            stamped "$stamps" >"$scratch/why" 2>&1 || refuse "timestamps: one is not a time-stamp of its checkpoint"
            hashed_well "$stamps" >"$scratch/why" 2>&1 || refuse "timestamps: a digest of the time-stamp is too weak or not supported"
            strong "$scratch/token$stamps.pem" || refuse "timestamps: the signer's key is too weak or not supported"
            [[ $anchored == - || $anchored == "sha256:$(sha256 <"$scratch/stamp$stamps")" ]] || refuse "timestamps: an anchor commits to something else" ;;
        cosigned)
            IFS=$'\t' read -r witness text own message <<<"$rest"
            { raw 302a300506032b6570032100; openssl base64 -d -A <<<"$text" | tail -c 32; } >"$scratch/witness"
            moment=$((16#${own:0:16}))
            ((moment >= 0)) || refuse "witnesses: the time of a cosignature is too large"
            { printf 'cosignature/v1\ntime %d\n' "$moment"; openssl base64 -d -A <<<"$message"; } >"$scratch/text"
            verify "$scratch/text" "${own:16}" "$scratch/witness" || refuse "witnesses: the cosignature of $witness is not its own"
            cosigned+=${cosigned:+$'\n'}$witness ;;
        hmac)
            more=${more#*$'\t'}
            [[ ${digest[n]} == "${more%%$'\t'*}" ]] || refuse "$first: what is shown is not what was recorded" ;;
        hash | text) hashes+="[\"$first\",\"sha256:${digest[n]}\"]"$'\n' ;;
        stream) stream=$rest ;;
        size) size=$rest ;;
    esac
done <"$scratch/tasks"
printf '%s\n' bookguard.packet/1 "$content" "$stream" "$count" "$last" "$size" |
    cmp -s - "$scratch/said" || refuse "signature: the packet is not the one that was signed"

# --- The rules: chain, booking, and what must be equal
cat >"$scratch/rules.jq" <<'JQ'
include "format";
def hashes($what): [$hashes[] | select(.[0] == $what) | .[1]];
# Why the end of a delivery cannot be recorded after those before it.
def contradiction($before; $causes): . as $new | (.outcome == "delivered") as $delivered
  | need(.attempts >= 1 and .seq >= 1; "booking: the end of a delivery counts from nothing")
  | need($delivered == (.error == null) and (($delivered | not) or (.statusCode // 0 | . >= 200 and . <= 299));
      "booking: the end of a delivery is not that of its last attempt")
  | need(.statusCode != null or .responseSha256 == null; "booking: the end of a delivery has the digest of an answer that never came")
  | need(all($before[]; (.eventId == $new.eventId) as $same | $same == (.seq == $new.seq)
        and (($same | not) or (.type == $new.type and .bodySha256 == $new.bodySha256)));
      "booking: an event has two contents or numbers")
  | need(all($before[] | select(.eventId == $new.eventId and .endpointId == $new.endpointId);
        .outcome == "given_up" and $delivered and .attempts < $new.attempts); "booking: a delivery ended twice")
  | [.type, (.eventId | made_at)] as $kind
  | need(([$new, $before[]] | map(select([.type, (.eventId | made_at)] == $kind) | .eventId) | unique | length) <= ($causes | map(select(. == $kind)) | length);
      "booking: a notification reports nothing recorded");
# Checks a resolution against the cancellation, or a decision against what it decides.
def resolution($state): . as $new | $state.resolutions as $before
  | need((if $before == [] then
        ($state.canceled | with_entries(select(.key | IN("bookingId", "canceledAt", "canceledBy", "effectiveAt", "reason"))))
        + {partnerId: $state.booking.partnerId, evidenceGrade: (if $state.booking.protected then "ledger_anchored" else "record_only" end),
           status: (if .evaluation.evaluationStatus == "review_required" then "pending_review" else "final" end)}
      elif ($before | length) == 1 and $before[0].status == "pending_review" and (.decision | type) == "object" and .resolutionId != $before[0].resolutionId then
        $before[0] + {status: "decided", supersedes: $before[0].resolutionId, decision}
      else {} end + {resolutionId, summary, evaluation}) as $expected | same($expected) and .evaluation.bookingId == $state.booking.bookingId;
    "booking: a resolution neither results from the cancellation nor decides what the cancellation left open");
def step($kind; $fact; $written): . as $state | ($state.canceled == null) as $open
  | ($fact | has_shape($kind; "booking")) as $checked
  | if $kind == "booking.created" then need(.booking == null; "booking: a booking is recorded once")
      | .booking = ($fact | del(.termsHash)) + {status: "created", protected: false} | .terms_hash = $fact.termsHash | .in_force = $fact.termsHash
      | .counted = $fact.createdAt | .happened = $fact.createdAt
    elif $kind == "booking.protected" then need(.booking.status == "created" and $fact.termsHash == .in_force; "booking: a protection cannot stand here")
      | .booking += {status: "protected", protected: true, protectedAt: $fact.protectedAt} | .happened = $fact.protectedAt
    elif $kind == "booking.rescheduled" then
      .counted = (([$fact.at // $fact.rescheduledAt, .counted] | max)[:19] + ".000Z")
      | need($open and $fact.former.at == .counted; "booking: a move does not follow what was before it")
      | .terms += [$fact.terms] | .dates += [$fact.former.previousEventDate] | .in_force = .moved[(.terms | length) - 1]
      | .booking |= (del(.timeZone) + ($fact | {eventDate, rescheduledAt}) + (if $fact.timeZone then {timeZone: $fact.timeZone} else {} end))
      | .happened = $fact.rescheduledAt
    elif $kind == "terms.accepted" then need($open and $fact.bookingId == .booking.bookingId; "booking: an acceptance cannot stand here")
      | .accepted += [{fact: $fact, moves: (.terms | length)}] | .happened = $fact.acceptedAt
    elif $kind == "booking.canceled" then need($open and $fact.bookingId == .booking.bookingId; "booking: a cancellation cannot stand here")
      | need($fact | .evidenceCount == null or (.evidenceCount > 0 and (.evidence == null or (.evidence | length) == .evidenceCount)); "booking: a cancellation counts more or fewer documents than it names")
      | .canceled = $fact | .booking += {status: "canceled", canceledAt: $fact.canceledAt} | .happened = $fact.canceledAt
    elif $kind == "evidence.added" then need(($open or .resolutions != []) and $fact.bookingId == .booking.bookingId
        and all(.items[]; .itemId != $fact.itemId); "booking: an item cannot stand here")
      | .items += [$fact] | .happened = $fact.addedAt
    elif $kind == "evidence.erased" then need(($open or .resolutions != []) and $fact.bookingId == .booking.bookingId; "booking: an erasure cannot stand here")
      | .happened = $fact.erasedAt
    elif $kind == "resolution.created" then need($open | not; "booking: a resolution cannot stand here")
      | ($fact.resolution | resolution($state)) as $resolution | .resolutions += [$fact.resolution]
      | .booking.resolutionId = $fact.resolution.resolutionId | .happened = ($fact.resolution | .decision.decidedAt // .canceledAt)
    else need($open or .resolutions != []; "booking: the end of a delivery cannot stand here")
      | ($fact.notification | contradiction($state.settled; $state.causes)) as $sound
      | .settled += [$fact.notification] | .happened = $fact.notification.settledAt
    end
  | if $kind | IN("booking.created", "booking.protected", "resolution.created") then .causes += [[$kind, (.happened | time)]] else . end
  | need((.happened | time) <= ($written | time); "booking: a fact happened after its entry was written");
def delivery($told; $events): . as $d | (.status == "no_endpoints") as $nowhere | [.type, (.eventId | made_at)] as $kind
  | [$told.settled[] | select(.eventId == $d.eventId and .endpointId == $d.endpointId)] as $own | $own[-1] as $last
  | need(($events | map(select(.[1:] == $kind)) | unique | length) <= ($told.causes | map(select(. == $kind)) | length); "deliveries: no entry is what an event reports")
  | need(.recorded | same($own); "deliveries: how one ended is not shown as recorded")
  | need((.endpointId == null) == $nowhere and (.url == null) == $nowhere and ($last == null or $last.type == .type); "deliveries: one is not of its status or type")
  | need(if .status == "delivered" then $last.outcome == "delivered" and $last.attempts == .attempts
      elif .status == "failed" then $last == null or ($last.outcome == "given_up" and $last.attempts <= .attempts)
      else .attempts == 0 and $last == null end; "deliveries: one cannot have its status")
  | (.attempts - (.history | length)) as $before
  | need(.history == [] or ((.history | length) == ([.attempts, 20] | min)
      and all($own[] | select(.attempts > $before); . as $n | $d.history[.attempts - $before - 1] | .statusCode == $n.statusCode and .error == $n.error)
      and (.history | map(.error == null)) == ([range(.history | length - 1) | false] + [.status == "delivered"])); "deliveries: the attempts of one are not as recorded");

. as $packet | erased as $erased | [range(.entries | length) as $at | .entries[$at] | leaf + {kind: .body.kind, index: (.proof | proof | .index),
    fact: ((.body.sd | keys) as $names | [$erased[] | select(.[0] == $at) | .[1] | select(in(stands_in)) | {key: ., value: stands_in[.]}] + [$packet.withheld[] | select(IN("organizer", "talent") and IN($names[]))
      | {key: ., value: {id: "withheld", name: "withheld"}}] + (.disclosures | map({key: .name, value})) | from_entries)} | .kind as $kind | .fact |= joined($kind)] as $entries
| need(all(range($entries | length); . as $i | $entries[$i] | .stream == $packet.stream and .seq == $i
      and .prev == (if $i == 0 then "0" * 64 else $leaves[$i - 1] end) and ($i == 0 or (.index > $entries[$i - 1].index and .t >= $entries[$i - 1].t))
      and .t <= $packet.createdAt); "chain: the entries are not one chain, in order, before the packet")
| need(all($entries[]; .kind as $kind | shapes | has($kind)) and all($entries[].kind; contains(".")); "commitment: an entry is of another kind")
| need($entries[0].kind == "booking.created"; "booking: the first entry is not the recording")
| reduce $entries[] as $entry ({terms: [], dates: [], accepted: [], items: [], resolutions: [], settled: [], causes: [], moved: hashes("moved")};
    step($entry.kind; $entry.fact; $entry.t))
| need(.canceled == null or .resolutions != []; "booking: the cancellation has no resolution")
| .booking += (if $packet.policy == null then {} else {policy: {policyId: $packet.policy.policyId, version: $packet.policy.version,
    policyHash: $packet.terms.adopted, policySource: $packet.terms.source}} end)
| need(.booking as $booking | $packet.booking | same($booking); "booking: the booking is not shown as recorded")
| need($packet.policyHash == $packet.terms.adopted and $packet.policyHash == hashes("policy")[0]; "policy: it has another hash")
| ($packet.formerTerms + [$packet.terms]) as $shown
| need(all($shown[]; (.source == null) == ($packet.policy == null)); "policy: the terms name the source of a policy but the packet shows no policy, or the reverse")
| need(.dates == ($shown[:-1] | map(.date)); "terms: a move names a former date that is not the date in the terms before it")
| need(.terms_hash == hashes("shown")[0] and (.terms as $terms | $shown[1:] | same($terms)) and all($shown[]; .adopted == $packet.policyHash);
    "terms: they are not those recorded")
| [range($shown | length) as $moves | [.accepted[] | select(.moves == $moves) | .fact.disclosureVersion] | unique
    | if . == [] then null else .[] end | [$moves, .]] as $places
| need(($packet.termsDisclosures | map(.disclosureHash)) == hashes("texts") and (hashes("texts") | length) == ($places | length)
    and all(range($places | length); $packet.termsDisclosures[.].version as $version | $places[.][1] | . == null or . == $version)
    and all($packet.termsDisclosures[]; .version | IN("bookguard-disclosure-1", "bookguard-disclosure-2")); "acceptances: the texts do not have their hashes")
| need((.accepted | map(.fact)) as $facts | $packet.acceptances | same($facts); "acceptances: they are not those recorded")
| need(all(.accepted[]; [.moves, .fact.disclosureVersion] as $place | .fact.disclosureHash as $own
    | any(range($places | length); $places[.] == $place and hashes("texts")[.] == $own));
    "acceptances: what was accepted is not the text in force then")
| need(.items as $facts | $packet.items | same($facts); "items: they are not those recorded")
| need(.resolutions[-1] as $latest | $packet.resolution | same($latest); "resolution: it is not the latest recorded")
| need($packet.evaluation == null or $packet.evaluation.bookingId == $packet.booking.bookingId; "evaluation: it is another booking's")
| need(.resolutions == [] or (.resolutions[-1].evaluation as $recorded | $packet.evaluation | same($recorded)); "evaluation: it is not the one recorded")
| . as $told | $packet.deliveries | map([.eventId, .type, (.eventId | made_at)]) as $events
| need(length <= 50 * ($told.causes | length) and (map([.eventId, .endpointId]) | unique | length) == length
    and all(group_by(.eventId)[]; (map(.type) | unique | length) == 1 and (length == 1 or all(.[]; .endpointId != null)));
    "deliveries: one is shown twice, or there are too many")
| need(all($told.settled[]; [.eventId, .endpointId] as $own | $packet.deliveries | any(.[]; [.eventId, .endpointId] == $own)); "deliveries: a recorded end is not shown")
| map(delivery($told; $events)) | "Verified: \($entries | length) entries of \($packet.booking.bookingId) in the ledger \($packet.log.origin)."
JQ
# In files: Linux takes no argument of more than 128 KiB.
printf %s "$hashes" >"$scratch/hashes"
printf %s "$leaves" >"$scratch/leaves"
verified=$(jq -r -L "$scratch" --slurpfile hashes "$scratch/hashes" --slurpfile leaves "$scratch/leaves" -f "$scratch/rules.jq" "$scratch/packet" 2>"$scratch/why") ||
    refuse "$(reason)"

# --- Whom the reader trusts: the roots of authorities, and the witnesses
# constrains FILE: whether a certificate limits the names below it. Such a one vouches for nobody here: not every verifier compares
# names.
constrains() { [[ $(openssl x509 -in "$1" -noout -ext nameConstraints 2>/dev/null) ]]; }
# serves FILE: whether a certificate below a root may be used for time-stamps, and has no critical extension that is not judged here.
# openssl asks the first of the signer's only, and passes over some of the second.
serves() {
    local purposes
    purposes=$(openssl x509 -in "$1" -noout -ext extendedKeyUsage 2>/dev/null)
    [[ -z $purposes || $purposes =~ (^|[ ,])'Time Stamping'(,|$) ]] && ! constrains "$1" && openssl x509 -in "$1" -noout -text >"$scratch/text" &&
        sed -E '/^ {12}X509v3 (Basic Constraints|Key Usage|Extended Key Usage): critical$/d' "$scratch/text" >"$scratch/odd" &&
        ! grep -Eq '^ {12}[^ ].*: critical$' "$scratch/odd"
}
# between STAMP: collects the certificates of its token through which a path may lead.
between() {
    local one
    openssl pkcs7 -inform DER -in "$scratch/token$1" -print_certs | awk -v to="$scratch/sent$1." '/^-----BEGIN CERTIFICATE-----/ { n++ } n { print >(to n) }'
    for one in "$scratch/sent$1".*; do
        if serves "$one" && strong "$one"; then cat "$one"; fi
    done >"$scratch/between$1"
}
# trusted STAMP MOMENT: whether one of the roots vouches for its signer then. One after the other: of two with one name, openssl tries
# the first. What the token is of, and its signature, were checked. The machine's own roots are not the reader's.
# An authority's certificate must be valid at the stamped time, and when the next time-stamp renewed it, or now: openssl takes the
# moment from -attime, and without it refuses what was renewed long ago.
trusted() {
    local root
    : >"$scratch/why"
    for root in "$scratch"/root.*; do
        ! constrains "$root" && strong "$root" && openssl verify -purpose timestampsign -no-CApath -no-CAstore -CAfile "$root" -partial_chain -attime "$2" \
            -untrusted "$scratch/between$1" "$scratch/token$1.pem" >/dev/null 2>"$scratch/why" && return
    done
    return 1
}
if ((stamps == 0)); then
    said="Not yet time-stamped: the packet holds no time-stamp, so only the service says when its entries were recorded."
elif [[ ! $roots ]]; then
    said="Not checked: the time-stamps, which show to whoever trusts their authority when the entries existed (--timestamp-roots)."
else
    for ((i = 1; i <= stamps; i++)); do
        at=$(<"$scratch/token$i.time")
        ! vouches "$scratch/token$i.pem" || refuse "timestamps: the signer's certificate is one of an authority for certificates"
        serves "$scratch/token$i.pem" || refuse "timestamps: the signer's certificate is for something else, or has a critical extension that is not judged here"
        between "$i"
        until=$(if ((i < stamps)); then cat "$scratch/token$((i + 1)).time"; else date +%s; fi)
        ((at <= until + 300)) || refuse "timestamps: one is of a later time than it can be"
        for moment in "$at" $((until > at ? until : at)); do
            trusted "$i" "$moment" || refuse "timestamps: no root that you trust vouches for it$(sed -n 's/.*\(error [0-9].*\)/: \1/p' "$scratch/why" | tail -1)"
        done
    done
    said="By $(jq -rn --argjson at "$(<"$scratch/token1.time")" '$at | todate'), entries of the packet existed: a root that you trust vouches for the authority."
fi
if [[ $policy ]]; then
    jq -en -L "$scratch" --arg have "$cosigned" --slurpfile policy "$scratch/policy.json" 'include "format";
        $policy[0] as $policy | $policy.quorum[0] | . == "none" or reached($have | split("\n"); $policy.members)' >/dev/null ||
        refuse "witnesses: too few witnesses of the policy have cosigned the ledger: ${cosigned//$'\n'/, }"
    said+=$'\n'"Cosigned as the policy demands: ${cosigned//$'\n'/, }."
fi
complete=$(jq -r 'if has("completeness") then .completeness.entry.disclosures | map(.value | tostring)
        | "Complete: nothing recorded by \(.[2]) is missing, by the ledger\u0027s map of its first \(.[1]) entries."
    else "Not shown: whether there is a later entry. The packet was made before the ledger was mapped with all of these." end' "$scratch/packet")
printf '%s\n' "$verified" "$complete" "$said" "Not recomputed: deadlines, amounts and evaluations from the policy; the texts of the terms; the summary."
