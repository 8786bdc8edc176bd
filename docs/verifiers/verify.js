// Verifies an evidence packet of Bookguard (bookguard.evidence/1), without network and without dependencies.
//
//   node verify.js PACKET KEYFILE [--timestamp-roots FILE] [--witness-policy FILE]
//                                            exit 0: verified, 1: not verified, 2: wrong usage, a file that cannot be read, or a document made of a packet
//   verifyPacket(text, vkey, policy, roots)  in a browser, or after require("./verify.js"): a promise of
//                                            {verified, checks: [{name, place, passed, detail}], fingerprint, notChecked}
//
// With a trust policy (C2SP tlog-policy, a text), it also checks that the witnesses which the policy demands have cosigned the ledger. With
// the roots of time-stamp authorities that you trust (PEM, a text), it also checks who made the packet's time-stamps, in Node.js alone:
// browsers read no certificates for a script, so there it checks what a time-stamp is of, and neither its signature nor its authority.
// Needs Ed25519 in WebCrypto: Node.js 18, Chrome 137, Firefox 129, Safari 17. The verifier key must come from somewhere other
// than the packet. The format is described in docs/evidence-format.md. Not checked, because it takes the policy engine: that the
// terms follow from the policy, the sums from the terms, and the sentences from the facts. `bookguard evidence verify` does that.
(function (root) {
  "use strict";

  const STAMPS_NOT_CHECKED =
    "Not checked: the time-stamps’ authorities. To whoever trusts those, the time-stamps show when the entries existed. "
    + "The command “bookguard evidence verify --timestamp-roots FILE” checks them, and so does verify.js in Node.js.";
  const NOT_CHECKED =
    "Not recomputed here: the schedule of the terms, the sums, and the sentences. The command “bookguard evidence verify” does that.";
  const PACKET_BYTES = 4 * 1024 * 1024;
  const utf8 = (text) => new TextEncoder().encode(text);

  /** What is wrong with a packet, in a sentence; anything else that is thrown is a fault of this program. */
  class Fault extends Error {}
  const fail = (why) => {
    throw new Fault(why);
  };
  const must = (holds, why) => holds || fail(why);
  const short = (value) => {
    const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "nothing");
    return text.length > 80 ? `${text.slice(0, 80)}…` : text;
  };
  const entriesOf = (count) => (Number(count) === 1 ? "1 entry" : `${count} entries`);

  // ---- JSON: a strict reader (JSON.parse hides names that occur twice), and the canonical form (RFC 8785)

  const MAX_DEPTH = 127;
  const MAX_VALUES = 500000;
  const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
  const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
  const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

  function readJson(text) {
    let at = 0;
    let values = 0;
    const wrong = (what) => fail(`The file is not a JSON document: ${what} at character ${at + 1}.`);
    const space = () => {
      while (" \t\n\r".includes(text[at] || "x")) at++;
    };
    const take = (pattern) => {
      pattern.lastIndex = at;
      const found = pattern.exec(text);
      if (found) at = pattern.lastIndex;
      return found && found[0];
    };
    const string = () => {
      const quoted = take(STRING) ?? wrong("no valid string");
      const value = quoted.includes("\\") ? JSON.parse(quoted) : quoted.slice(1, -1);
      return LONE_SURROGATE.test(value) ? wrong("half a character (a lone surrogate)") : value;
    };
    const value = (depth) => {
      if (depth > MAX_DEPTH || ++values > MAX_VALUES) wrong("too much in one document");
      space();
      for (const [word, meaning] of [["null", null], ["true", true], ["false", false]]) {
        if (text.startsWith(word, at)) {
          at += word.length;
          return meaning;
        }
      }
      if (text[at] === '"') return string();
      if (text[at] === "[" || text[at] === "{") return text[at] === "[" ? array(depth) : object(depth);
      const number = Number(take(NUMBER) ?? wrong("no JSON value"));
      // Beyond this, two numbers could have the same canonical form.
      return Math.abs(number) <= Number.MAX_SAFE_INTEGER ? number : wrong("a number that is too large");
    };
    const list = (close, item) => {
      at++;
      space();
      if (text[at] === close) return at++;
      for (;;) {
        item();
        space();
        if (text[at] === close) return at++;
        if (text[at++] !== ",") wrong(`no comma and no ${close}`);
      }
    };
    const array = (depth) => {
      const items = [];
      list("]", () => items.push(value(depth + 1)));
      return items;
    };
    const object = (depth) => {
      const members = Object.create(null);
      list("}", () => {
        space();
        const name = string();
        if (name in members) wrong(`the name ${short(name)} a second time`);
        space();
        if (text[at++] !== ":") wrong("no colon");
        members[name] = value(depth + 1);
      });
      return members;
    };
    const document = value(0);
    space();
    return at === text.length ? document : wrong("more after the document's end");
  }

  function canonical(value) {
    if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
    if (value === null || typeof value !== "object") return JSON.stringify(value);
    // The default order of sort() is that of UTF-16 code units, as RFC 8785 demands.
    const members = Object.keys(value).sort();
    return `{${members.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
  }

  const same = (a, b) => canonical(a) === canonical(b);
  const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

  // The members of every object that is checked here, with their types. "?" marks those that may be absent, "~" is "or null",
  // "*" an array, "+" one that is not empty, "|" stands between words, and the rest is in TYPES. A member without a type has the one that its name tells.
  const PARTIES = "organizer|talent|partner|mutual";
  const ASSUMED = "policy_assumed_from_library|time_zone_assumed_utc|backdated";
  const SOURCES = "booking|named|partner_default_for_event_type|partner_default|library";
  const EVENTS = "booking.created|booking.protected|resolution.created";
  const REASONS = "changed_plans|schedule_conflict|illness|venue_unavailable|weather|force_majeure|no_show|non_payment|safety|other";
  const FAILURES = "dns_error|blocked_address|connection_refused|connection_reset|timeout|tls_error|redirect_refused|http_4xx|http_5xx"
    + "|gone|payload_too_large|throttled|protocol_error|headers_too_large|excessive_answer|our_fault";
  const SHAPES = {
    packet: "type:bookguard.evidence/1 createdAt partnerName booking:object stream log:log entries:*entry policy:~policy policyHash:~hash"
      + " terms:terms formerTerms:*terms termsDisclosures:*text acceptances:*object items:*object evaluation:~evaluation resolution:~object"
      + " deliveries:*delivery withheld:*ip|metadata|note|organizer|talent|userAgent summary:summary completeness?:completeness timestamps?:*timestamp signature",
    timestamp: "checkpoint consistency:*string response anchor:~entry",
    anchor: "anchoredAt responseHash treeSize:integer",
    completeness: "entry:entry path:*step",
    step: "bit:u8 hash",
    map: "mapRoot:hex treeSize:integer writtenAt",
    log: "origin vkey",
    entry: "leaf body:body salt disclosures:*disclosure proof",
    body: "kind sd:digests v:bookguard.event/1",
    disclosure: "name salt value:any",
    text: "disclosureHash text version",
    terms: `adopted?:hash assumed:*${ASSUMED} date offsets:*whole schedule:*span source:~${SOURCES} until:whole zone`,
    former: "at previousEventDate reached:~amount",
    delivery: `eventId type:${EVENTS} endpointId:~end url:~url status:delivered|failed|pending|no_endpoints attempts:u32`
      + " recorded:*notification history:*attempt",
    attempt: "startedAt statusCode:~u16 error:~string",
    notification: `eventId type:${EVENTS} seq:integer bodySha256:hex endpointId outcome:delivered|given_up settledAt attempts:u32`
      + ` error?:${FAILURES} statusCode?:u16 responseSha256?:hex`,
    resolution: `resolutionId bookingId partnerId status:final|pending_review|decided evidenceGrade:record_only|ledger_anchored`
      + ` canceledBy:${PARTIES} reason?:${REASONS} effectiveAt? canceledAt supersedes? decision?:decision summary evaluation:evaluation`,
    decision: "refund:amount decidedBy rationale decidedAt",
    summary: "version headline story:*string timeline:*moment offsets:*whole",
    moment: "at when entry:~integer text",
    person: "id:string name",
    document: "kind name? mediaType? sha256",
    amount: "amount currency minorUnits:integer",
    // Kinds of entries
    "booking.created": "bookingId partnerId talent:person organizer:person eventType eventDate:time timeZone? bookingValue:number"
      + " amountPaid?:number currency:code metadata?:strings createdAt termsHash",
    "booking.protected": "protectedAt termsHash",
    "booking.rescheduled": `rescheduledAt eventDate:time timeZone? agreedBy:*${PARTIES} at? former:former terms:terms`,
    "terms.accepted": `bookingId acceptedAt party:${PARTIES} method at ip? userAgent? disclosureHash disclosureVersion`,
    "booking.canceled": `bookingId canceledAt canceledBy:${PARTIES} reason?:${REASONS} note? effectiveAt? agreedRefund?:amount evidence?:+document`
      + " evidenceCount?:integer",
    "resolution.created": "resolution:resolution",
    "evidence.added": `itemId bookingId addedAt kind:contract|message|photo|check_in|payment|refund|other title at? party?:${PARTIES}`
      + " amount?:amount reference? note? sha256?",
    "webhook.settled": "notification:notification",
    "evidence.erased": "bookingId erasedAt legalBasis:no_longer_needed|consent_withdrawn|objection|unlawful|legal_obligation|contract_ended|other"
      + " requestRef? values:*values",
    values: "entry:integer names:*decidedBy|eventType|evidence|ip|metadata|method|note|organizer|rationale|reference|requestRef|sha256|talent|title|userAgent",
    leaf: "commit prev:hex seq:integer stream t:time v:bookguard.leaf/1",
  };
  const IDS = { bookingId: "bkg", partnerId: "ptn", resolutionId: "res", supersedes: "res", itemId: "itm", eventId: "evt", endpointId: "end" };
  // Decimals of the currencies that do not have two (ISO 4217).
  const DECIMALS = {};
  [[0, "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"], [3, "BHD IQD JOD KWD LYD OMR TND"], [4, "CLF UYW"]]
    .forEach(([decimals, codes]) => codes.split(" ").forEach((code) => (DECIMALS[code] = decimals)));
  const isText = (value) => typeof value === "string";
  const isWhole = (value) => Number.isSafeInteger(value);
  const isAll = (type, values) => values.every((value) => isA(type, value));
  const TYPES = {
    any: () => true,
    string: isText,
    code: (value) => isText(value) && /^[A-Z]{3}$/.test(value),
    strings: (value) => isObject(value) && Object.keys(value).length > 0 && Object.values(value).every(isText),
    digests: (value) => isObject(value) && Object.values(value).every((one) => isText(one) && /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/.test(one)),
    whole: isWhole,
    integer: (value) => isWhole(value) && value >= 0,
    u8: (value) => isWhole(value) && value >= 0 && value < 2 ** 8,
    u16: (value) => isWhole(value) && value >= 0 && value < 2 ** 16,
    u32: (value) => isWhole(value) && value >= 0 && value < 2 ** 32,
    number: (value) => typeof value === "number" && /^[0-9]+(\.[0-9]{1,4})?$/.test(String(value)),
    object: isObject,
    policy: (value) => isObject(value) && isText(value.policyId) && isA("integer", value.version),
    evaluation: (value) => isObject(value) && isA("bkg", value.bookingId) && isText(value.evaluationStatus),
    span: (value) => Array.isArray(value) && value.length === 5 && isText(value[0]) && isAll("whole", value.slice(1, 3)) && isAll("~integer", value.slice(3)),
    time: isTime,
    hash: (value) => isText(value) && /^sha256:[0-9a-f]{64}$/.test(value),
    hex: (value) => isText(value) && /^[0-9a-f]{64}$/.test(value),
    url: (value) => isText(value) && /^[^:/\\?#@]+:\/\/[^/\\?#@]*$/.test(value),
  };
  const typeOf = (name) =>
    IDS[name] ?? (name === "at" || name.endsWith("At") ? "time" : name === "sha256" || name.endsWith("Hash") ? "hash" : "string");

  function isA(type, value) {
    if (type[0] === "~") return value === null || isA(type.slice(1), value);
    if (type[0] === "*") return Array.isArray(value) && isAll(type.slice(1), value);
    if (type[0] === "+") return isA(`*${type.slice(1)}`, value) && value.length > 0;
    if (Object.hasOwn(SHAPES, type)) return Boolean(shaped(type, value));
    if (Object.values(IDS).includes(type)) return isText(value) && new RegExp(`^${type}_[0-9a-f]{32}$`).test(value);
    return Object.hasOwn(TYPES, type) ? TYPES[type](value) : isText(value) && type.split("|").includes(value);
  }

  /** Refuses what is not an object of this kind: with its members, each of its type. */
  function shaped(kind, value) {
    must(isObject(value), `The ${kind} is not an object.`);
    const open = new Set(Object.keys(value));
    for (const member of SHAPES[kind].split(" ")) {
      const [, name, optional, type] = /^([^?:]+)(\??):?(.*)$/.exec(member);
      const known = open.delete(name);
      must(known || optional, `The ${kind} has no member ${name}.`);
      must(!known || isA(type || typeOf(name), value[name]), `The member ${name} of the ${kind} is not of its type: ${short(value[name])}.`);
    }
    must(!open.size, `The ${kind} has the member ${short([...open][0])}, which does not belong there.`);
    if (kind === "amount") {
      const [whole, fraction, ...more] = value.amount.split(".");
      const places = DECIMALS[value.currency] ?? 2;
      const units = String(value.minorUnits).padStart(places + 1, "0");
      const right = value.minorUnits <= 999999999999999 && !more.length && /^[A-Z]{3}$/.test(value.currency)
        && whole === units.slice(0, units.length - places) && (fraction ?? "") === units.slice(units.length - places);
      must(right && (places > 0) === (fraction !== undefined), `amount and minorUnits are not one amount: ${short(value)}.`);
    }
    if (kind === "booking.created") {
      const places = DECIMALS[value.currency] ?? 2;
      for (const name of ["bookingValue", "amountPaid"]) {
        const [whole, fraction = ""] = String(value[name] ?? 0).split(".");
        must(fraction.length <= places && whole.length + places <= 15, `${name} has more decimals than its currency, or more than 15 digits with them.`);
      }
    }
    return value;
  }

  const TIME = /^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$/;
  /** Whether it is the one spelling of an instant. In that spelling, texts sort like instants. */
  function isTime(value) {
    const instant = isText(value) && TIME.test(value) ? new Date(value) : new Date(NaN);
    return !isNaN(instant) && instant.toISOString() === value;
  }

  // ---- Bytes, hashes, signatures

  const bytesOf = (binary) => Uint8Array.from(binary, (character) => character.charCodeAt(0));
  const base64 = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const urlSafe = (text) => text.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

  /** Decodes padded base64 in its only spelling: no stray bits, no other characters. */
  function fromBase64(text, length) {
    let bytes = null;
    try {
      bytes = bytesOf(atob(text));
    } catch {
      return null;
    }
    return base64(bytes) === text && (length === undefined || bytes.length === length) ? bytes : null;
  }

  /** Decodes unpadded base64url of `length` bytes. */
  function fromBase64Url(text, length) {
    if (typeof text !== "string") return null;
    const padded = text.replace(/-/g, "+").replace(/_/g, "/") + "=".repeat((4 - (text.length % 4)) % 4);
    const bytes = fromBase64(padded, length);
    return bytes && urlSafe(base64(bytes)) === text ? bytes : null;
  }

  function joined(...parts) {
    const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }

  const subtle = () => root.crypto.subtle;
  const sha256 = async (bytes) => new Uint8Array(await subtle().digest("SHA-256", bytes));
  const named = async (text) => `sha256:${hex(await sha256(utf8(text)))}`;
  async function hmac(secret, text) {
    const key = await subtle().importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    return new Uint8Array(await subtle().sign("HMAC", key, utf8(text)));
  }

  // Points of small order, without the sign bit: a signature by or with one of them proves nothing.
  const SMALL = ["00".repeat(32), `01${"00".repeat(31)}`,
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    ...["ec", "ed", "ee"].map((low) => `${low}${"ff".repeat(30)}7f`)];
  const isSmall = (point) => SMALL.includes(hex([...point.slice(0, 31), point[31] & 0x7f]));

  /** A key without the white space around it, which is that of Unicode: trim() also takes a byte order mark. */
  const bare = (vkey) => String(vkey).replace(/^\p{White_Space}+|\p{White_Space}+$/gu, "");

  /** Reads a verifier key, `name+id+base64` (C2SP signed-note). */
  async function readKey(vkey, kind = 1) {
    const parts = /^([^+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]{44})$/.exec(vkey);
    const whose = kind === 1 ? "verifier key" : "key of a witness in the trust policy";
    const wrong = (why) => fail(`The ${whose} cannot be read: ${why}.${kind === 1 ? " Take it from the service's /v1/ledger/key." : ""}`);
    parts || wrong("it is written as a name, an id of 8 hex digits and base64, joined by plus signs");
    const [, name, id, encoded] = parts;
    const typed = fromBase64(encoded, 33);
    if (!typed || /[\p{White_Space}\p{Cc}]/u.test(name) || utf8(name).length > 255) wrong("its name or its base64 is malformed");
    if (typed[0] !== kind || isSmall(typed.slice(1))) wrong("it is not an Ed25519 key");
    const digest = await sha256(joined(utf8(`${name}\n`), typed));
    if (hex(digest.slice(0, 4)) !== id) wrong("its id is not that of its name and key; part of it was changed or cut");
    return { vkey, name, id, bytes: typed.slice(1) };
  }

  /** A key that can check signatures. Reading one takes less of a browser. */
  async function usableKey(vkey, kind) {
    const key = await readKey(vkey, kind);
    return { ...key, usable: await subtle().importKey("raw", key.bytes, { name: "Ed25519" }, false, ["verify"]) };
  }

  const signed = async (key, signature, text) =>
    signature.length === 64 && !isSmall(signature.slice(0, 32)) && (await subtle().verify({ name: "Ed25519" }, key.usable, signature, utf8(text)));

  /** Reads a signed note (C2SP signed-note): its text, with what the key is said to have signed it, and how many have. */
  function readNote(note, key) {
    must(typeof note === "string" && utf8(note).length <= 256 * 1024, "it is not a note, or too long");
    const end = note.lastIndexOf("\n\n");
    must(end >= 0 && note.endsWith("\n") && end + 2 < note.length, "it has no empty line, or its last line is cut");
    const [text, lines] = [note.slice(0, end + 1), note.slice(end + 2, -1).split("\n")];
    must(!/[\u0000-\u0009\u000b-\u001f]/.test(text), "its text has control characters");
    must(lines.length <= 100, "it has too many signatures");
    const own = [];
    for (const line of lines) {
      const [, name, encoded] = /^\u2014 ([^ ]+) ([^ ]+)$/.exec(line) ?? fail("one of its signature lines is malformed");
      const bytes = fromBase64(encoded);
      must(bytes && bytes.length > 4 && !/[+\p{White_Space}\p{Cc}]/u.test(name) && utf8(name).length <= 255, "one of its signature lines is malformed");
      if (name === key.name && hex(bytes.slice(0, 4)) === key.id) own.push(bytes.slice(4));
    }
    return { text, own, signatures: lines.length };
  }

  /** Checks a signed note. Returns its text and the number of its signature lines. */
  async function openNote(note, key) {
    const { text, own, signatures } = readNote(note, key);
    must(own.length === 1, own.length ? "the key has signed it twice" : `it has no signature by ${key.name}`);
    must(await signed(key, own[0], text), `its signature by ${key.name} does not fit its text`);
    return { text, signatures };
  }

  // ---- Witnesses: who has cosigned the ledger (C2SP tlog-cosignature), and who must have (C2SP tlog-policy)

  /** Reads a trust policy: the keys of its logs, its witnesses and groups by name, and its quorum. */
  async function readPolicy(text) {
    const [logs, members, free, quorum] = [[], new Map(), new Set(), []];
    const wrong = (why) => fail(`The trust policy cannot be read: ${why}.`);
    if (text.length > 64 * 1024 || utf8(text).length > 64 * 1024 || /[\u0000-\u0008\u000b-\u001f\u007f]/.test(text)) wrong("it is too long, or has control characters");
    for (const line of text.split("\n")) {
      const words = line.split(/[ \t]+/).filter(Boolean);
      const [keyword, name, least, ...of] = words;
      if (!keyword || keyword[0] === "#") continue;
      if (keyword === "log" && (words.length === 2 || words.length === 3)) {
        logs.push(await readKey(name));
        continue;
      }
      if (keyword === "quorum" && words.length === 2) {
        if (name !== "none" && !members.has(name)) wrong(`the quorum ${short(name)} is not defined`);
        quorum.push(name);
        continue;
      }
      if (words.length < 3 || name === "none" || members.has(name)) wrong(`this line: ${short(line)}`);
      if (keyword === "witness" && words.length <= 4) {
        members.set(name, { key: await usableKey(least, 4) });
      } else if (keyword === "group" && of.length && of.every((member) => free.delete(member))) {
        const count = least === "any" ? 1 : least === "all" ? of.length : /^[0-9]+$/.test(least) ? Number(least) : 0;
        if (count < 1 || count > of.length) wrong(`the number of the group ${short(name)} cannot be`);
        members.set(name, { of, count });
      } else {
        wrong(`this line: ${short(line)}`);
      }
      // Each name is a member of one group at most, so that no witness counts twice.
      free.add(name);
    }
    const keys = [...members.values()].filter(({ key }) => key).map(({ key }) => hex(key.bytes));
    const own = logs.map(({ bytes }) => hex(bytes));
    const once = (all) => new Set(all).size === all.length;
    if (quorum.length !== 1 || !once(keys) || !once(own)) wrong("it has one quorum, and each key once");
    if (Math.max(own.length, keys.length, members.size - keys.length) > 256) wrong("it has at most 256 logs, witnesses and groups each");
    return { logs: logs.map(({ vkey }) => vkey), members, quorum: quorum[0] };
  }

  /** Checks that the witnesses which a policy demands have cosigned a checkpoint. */
  async function cosigned(checkpoint, { logs, members, quorum }, ledger) {
    must(!logs.length || logs.includes(ledger.vkey), "The trust policy trusts other logs.");
    const have = new Map();
    for (const [name, { key }] of members) {
      const { text, own } = key ? readNote(checkpoint, key) : { own: [] };
      if (!own.length) continue;
      const time = own[0].length === 72 && new DataView(own[0].buffer, own[0].byteOffset).getBigUint64(0);
      const good = own.length === 1 && time !== false && time < 1n << 63n
        && (await signed(key, own[0].slice(8), `cosignature/v1\ntime ${time}\n${text}`));
      must(good, `The cosignature of the witness ${short(name)} does not verify.`);
      // A witness may name a time that no date has. What counts is that it has cosigned.
      have.set(name, new Date(Math.min(Number(time), 253402300799) * 1000).toISOString());
    }
    const reached = (name) => {
      const { key, of, count } = members.get(name);
      return key ? have.has(name) : of.filter(reached).length >= count;
    };
    const names = [...have.keys()].join(", ") || "none";
    must(quorum === "none" || reached(quorum), `Too few witnesses of the trust policy have cosigned this state of the ledger: ${names}.`);
    return `Witnesses have cosigned this state of the ledger, as many as the trust policy demands: ${[...have].map(([name, at]) => `${name} on ${at}`).join(", ") || "none"}.`;
  }

  const DECIMAL = /^(0|[1-9][0-9]{0,19})$/;

  /** Checks a checkpoint (C2SP tlog-checkpoint) of the key's log. */
  async function openCheckpoint(note, key) {
    const { text } = await openNote(note, key);
    const lines = text.slice(0, -1).split("\n");
    const [origin, size, root64] = lines;
    const root = fromBase64(root64 ?? "", 32);
    must(lines.every(Boolean) && DECIMAL.test(size ?? "") && root, "its head is not that of a log");
    must(origin === key.name, `its head is that of the log ${short(origin)}, not of ${key.name}`);
    must(BigInt(size) < 1n << 64n, "its log has more entries than it can have");
    return { origin, size: BigInt(size), root };
  }

  /** Reads a proof (C2SP tlog-proof) in its only spelling, without extra data. */
  function readProof(text) {
    const parts = /^c2sp\.org\/tlog-proof@v1\nindex (0|[1-9][0-9]{0,19})\n((?:[A-Za-z0-9+/]{43}=\n){0,64})\n([^]+)$/.exec(text);
    must(parts, "it is not a proof, or holds more than one");
    const path = parts[2].split("\n").slice(0, -1).map((line) => fromBase64(line, 32));
    must(path.every(Boolean), "one of its hashes is malformed");
    return { index: BigInt(parts[1]), path, checkpoint: parts[3] };
  }

  const leafHash = (leaf) => sha256(joined([0], leaf));

  /** The root to which a path leads (RFC 9162 section 2.1.3.2). */
  async function rootOf(hash, index, size, path) {
    must(index < size, `position ${index} is not in a ledger of ${entriesOf(size)}`);
    let [node, last] = [index, size - 1n];
    for (const sibling of path) {
      must(last > 0n, "it has too many hashes");
      if (node & 1n || node === last) {
        hash = await sha256(joined([1], sibling, hash));
        while (!(node & 1n) && node) [node, last] = [node >> 1n, last >> 1n];
      } else {
        hash = await sha256(joined([1], hash, sibling));
      }
      [node, last] = [node >> 1n, last >> 1n];
    }
    must(last === 0n, "it has too few hashes");
    return hash;
  }

  // ---- The entries: each in the ledger, its values the committed ones, all of them one chain

  /** Reads the exact bytes of an entry of the ledger. */
  function readLeaf(encoded) {
    const bytes = fromBase64(encoded) ?? fail("The entry's leaf is not valid base64.");
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    let leaf;
    try {
      leaf = readJson(text.decode(bytes));
    } catch {
      fail("The leaf of the entry cannot be read.");
    }
    shaped("leaf", leaf);
    const sound =
      canonical(leaf) === text.decode(bytes) &&
      fromBase64Url(leaf.commit, 32) &&
      fromBase64Url(leaf.stream, 16) &&
      leaf.t >= "1970" &&
      (leaf.seq === 0) === /^0+$/.test(leaf.prev);
    must(sound, "The ledger entry is not one of bookguard.leaf/1 in its exact form.");
    return { bytes, ...leaf };
  }

  /** Proves that an entry is in the ledger. `heads` keeps the checkpoints already checked. */
  async function prove(entry, key, heads) {
    const leaf = readLeaf(entry.leaf);
    try {
      const proof = readProof(entry.proof);
      if (!heads.has(proof.checkpoint)) heads.set(proof.checkpoint, await openCheckpoint(proof.checkpoint, key));
      const head = heads.get(proof.checkpoint);
      const hash = await leafHash(leaf.bytes);
      const root = await rootOf(hash, proof.index, head.size, proof.path);
      must(hex(root) === hex(head.root), "it does not lead to the ledger's root");
      return { leaf, hash: hex(hash), index: proof.index, head, checkpoint: proof.checkpoint };
    } catch (fault) {
      throw fault instanceof Fault ? new Fault(`The entry is not proven to be in the ledger: ${fault.message}.`) : fault;
    }
  }

  /** Checks that the ledger committed to the body of an entry. */
  async function committed(entry, leaf) {
    const salt = fromBase64Url(entry.salt, 32) ?? fail("The entry's salt is not 32 bytes in base64url.");
    const digest = await hmac(salt, canonical(entry.body));
    must(urlSafe(base64(digest)) === leaf.commit, "The entry's content is not the one the ledger committed to.");
    must(Object.hasOwn(HAPPENED_AT, entry.body.kind), `${short(entry.body.kind)} is not a kind of entry that this verifier knows.`);
    return `The entry is of the kind ${entry.body.kind}, and it is the one the ledger committed to.`;
  }

  // The values that can be erased of an entry, by its kind, and what stands in for those that an entry cannot be without.
  const ERASABLE = {
    "booking.created": ["eventType", "metadata", "organizer", "talent"],
    "terms.accepted": ["ip", "method", "userAgent"],
    "booking.canceled": ["evidence", "note"],
    "resolution.created": ["decidedBy", "rationale"],
    "evidence.added": ["note", "reference", "sha256", "title"],
    "evidence.erased": ["requestRef"],
  };
  const ERASED = {
    organizer: { id: "erased", name: "erased" }, talent: { id: "erased", name: "erased" },
    eventType: "erased", method: "erased", title: "erased", decidedBy: "erased", rationale: "erased",
  };

  /** The names of the values of each entry that later ones say were erased. */
  function erasures(entries) {
    const erased = entries.map(() => []);
    for (const [own, entry] of entries.entries()) {
      if (entry.body.kind !== "evidence.erased") continue;
      const said = Object.create(null);
      for (const { name, value } of entry.disclosures) said[name] = value;
      shaped("evidence.erased", said);
      must(said.values.length, `The erasure in entry ${own} names nothing.`);
      said.values.forEach(({ entry: place, names }, at) => {
        must((at === 0 || said.values[at - 1].entry < place) && place < own, `The erasure in entry ${own} is not of entries before it, in order.`);
        must(names.length && names.every((name, i) => i === 0 || names[i - 1] < name), `The erasure in entry ${own} names nothing, or not in order.`);
        const { kind, sd } = entries[place].body;
        for (const name of names) {
          must(!erased[place].includes(name), `The value ${name} of entry ${place} was erased twice.`);
          const could = Object.hasOwn(ERASABLE, kind) && ERASABLE[kind].includes(name) && Object.hasOwn(sd, name)
            && (name !== "evidence" || Object.hasOwn(sd, "evidenceCount"));
          must(could, `The value ${name} of entry ${place} cannot have been erased.`);
          erased[place].push(name);
        }
      });
    }
    return erased;
  }

  /** Checks that every value shown is the committed one, and that every committed value is shown, named as withheld, or erased. */
  async function disclosed(entry, withheld, erased) {
    const inOrder = withheld.every((name, at) => at === 0 || utf8Before(withheld[at - 1], name));
    must(inOrder, "The names of the withheld values are not in order, or one is given twice.");
    const names = entry.disclosures.map((disclosure) => disclosure.name);
    must(names.every((name, at) => at === 0 || utf8Before(names[at - 1], name)), "The values are not in order, or one is given twice.");
    for (const { name, salt, value } of entry.disclosures) {
      const secret = fromBase64Url(salt, 32) ?? fail(`The salt of ${short(name)} is not 32 bytes in base64url.`);
      const digest = urlSafe(base64(await hmac(secret, canonical([name, value]))));
      must(entry.body.sd[name] === digest, `The value of ${short(name)} is not the one that was recorded.`);
    }
    const shown = names.find((name) => withheld.includes(name));
    must(shown === undefined, `The value ${short(shown)} is shown, although the packet says that it is withheld.`);
    const again = names.find((name) => erased.includes(name));
    must(again === undefined, `The value ${short(again)} is shown, although a later entry says that it was erased.`);
    const hidden = Object.keys(entry.body.sd).filter((name) => !names.includes(name));
    const missing = hidden.find((name) => !withheld.includes(name) && !erased.includes(name));
    must(missing === undefined, `The value ${short(missing)} was recorded but is not shown.`);
    must(!Object.hasOwn(entry.body.sd, "evidenceCount") || Object.hasOwn(entry.body.sd, "evidence"), "The entry counts documents that it never named.");
    const listed = (what, names) => (names.length ? ` ${what}: ${names.join(", ")}.` : "");
    const isErased = (name) => erased.includes(name);
    const isOne = names.length === 1;
    return hidden.length
      ? `The ${isOne ? "one value shown is the one" : `${names.length} values shown are the ones`} recorded.${listed("Withheld", hidden.filter((name) => !isErased(name)))}`
        + listed("Erased", hidden.filter(isErased))
      : isOne ? "The one value of the entry is the one recorded." : `All ${names.length} values of the entry are the ones recorded.`;
  }

  /** Whether a text comes before another in the order of UTF-8, which is that of code points. */
  function utf8Before(a, b) {
    const [left, right] = [[...a], [...b]];
    for (let at = 0; at < left.length && at < right.length; at++) {
      if (left[at] !== right[at]) return left[at].codePointAt(0) < right[at].codePointAt(0);
    }
    return left.length < right.length;
  }

  /** Checks that the entries are one booking's, from its first on, without gap, under one head of the ledger. */
  function chain(packet, links) {
    must(links.length, "The packet has no entries.");
    links.forEach(({ leaf, index, checkpoint }, seq) => {
      const before = links[seq - 1];
      must(leaf.stream === packet.stream, `Entry ${seq} belongs to another booking.`);
      must(leaf.seq === seq, `Entry ${leaf.seq} stands where entry ${seq} belongs: one is missing, repeated or moved.`);
      must(leaf.prev === (before ? before.hash : "0".repeat(64)), `Entry ${seq} does not follow the entry before it.`);
      must(!before || before.index < index, `Entry ${seq} stands before its predecessor in the ledger.`);
      must(checkpoint === links[0].checkpoint, `Entry ${seq} is proven under another state of the ledger than the first.`);
      must(!before || before.leaf.t <= leaf.t, `Entry ${seq} has an earlier time than the entry before it.`);
      must(leaf.t <= packet.createdAt, `The packet claims to be older than its entry ${seq}.`);
    });
    return (
      (links.length === 1
        ? "This entry is the first of the booking. "
        : `The ${links.length} entries form an unbroken chain from the booking's first on. Nothing before the last is missing. `) +
      "Whether there is a later one, the log shows."
    );
  }

  /** Proves an entry that the ledger wrote for itself, under the same state of it as the entries, and reads what it says. */
  async function ofTheLedger(entry, kind, what, { checkpoint }, key, heads) {
    const link = await prove(entry, key, heads);
    const salt = fromBase64Url(entry.salt, 32) ?? fail(`The salt of the ${what}'s entry is not 32 bytes in base64url.`);
    const commit = urlSafe(base64(await hmac(salt, canonical(entry.body))));
    must(commit === link.leaf.commit && entry.body.kind === kind, `The entry of the ${what} does not commit to one.`);
    must(link.checkpoint === checkpoint, `The entry that commits to the ${what} is proven under another state of the ledger than the entries.`);
    await disclosed(entry, [], []);
    return { link, fact: shaped(what, Object.fromEntries(entry.disclosures.map(({ name, value }) => [name, value]))) };
  }

  // ---- The map: no entry is missing of those that it covers

  const NOT_YET = "Not yet shown: the packet was made before the ledger was mapped with all these entries, so nothing in it says that there is no later one.";
  /** The first 16 bytes of SHA-256("bookguard.map/1"). */
  const MAP_STREAM = "c3hEd-Jl-3HeP3CERv8uYg";

  /** Checks that the ledger's map has exactly these entries of the booking. */
  async function complete({ completeness, stream }, links, key, heads) {
    if (!completeness) return NOT_YET;
    const { entry, path } = completeness;
    const last = links.at(-1);
    const { link: own, fact: map } = await ofTheLedger(entry, "log.mapped", "map", last, key, heads);
    must(own.leaf.stream === MAP_STREAM, "The entry that commits to the map is not in the stream of all maps, where everybody looks for it.");
    const covered = BigInt(map.treeSize);
    must(last.index < covered && last.leaf.t <= map.writtenAt, "The map is older than the last entry, so it cannot show that there is no other.");
    must(covered <= own.index && map.writtenAt <= own.leaf.t, "The map claims to cover entries that were written after it.");
    const place = await sha256(fromBase64Url(stream, 16));
    const count = new Uint8Array(8);
    new DataView(count.buffer).setBigUint64(0, BigInt(links.length));
    let node = await sha256(joined([2], place, count, await leafHash(last.leaf.bytes)));
    let below = 256;
    for (const { bit, hash } of path) {
      const sibling = fromBase64(hash, 32);
      must(sibling && bit < below, "The path through the map is not in order, or one of its hashes is malformed.");
      below = bit;
      const prefix = place.map((byte, at) => byte & (0xff00 >> Math.min(8, Math.max(0, bit - 8 * at))));
      const isRight = place[bit >> 3] & (0x80 >> (bit & 7));
      node = await sha256(joined([3, bit], prefix, ...(isRight ? [sibling, node] : [node, sibling])));
    }
    must(hex(node) === map.mapRoot, `The ledger's map does not say that these ${links.length} entries are all of this booking. Entries may be left out.`);
    return `Nothing recorded by ${map.writtenAt} is missing: the ledger commits to a map of its first ${covered} entries, in which this booking has exactly these entries.`;
  }

  // ---- Time-stamps (RFC 3161): their places in the log, and who made them

  /** Whether a log is the beginning of another one (RFC 9162 section 2.1.4.2). */
  async function continues(old, now, path) {
    if (old.size === now.size) return hex(old.root) === hex(now.root) && !path.length;
    if (old.size < 1n || old.size > now.size) return false;
    // A power of two is a subtree of its own.
    const [first, ...rest] = old.size & (old.size - 1n) ? path : [old.root, ...path];
    let [node, last, before, after] = [old.size - 1n, now.size - 1n, first ?? [], first ?? []];
    while (node & 1n) [node, last] = [node >> 1n, last >> 1n];
    for (const sibling of rest) {
      if (last === 0n) return false;
      if (node & 1n || node === last) {
        before = await sha256(joined([1], sibling, before));
        after = await sha256(joined([1], sibling, after));
        while (!(node & 1n) && node) [node, last] = [node >> 1n, last >> 1n];
      } else {
        after = await sha256(joined([1], after, sibling));
      }
      [node, last] = [node >> 1n, last >> 1n];
    }
    return last === 0n && hex(before) === hex(old.root) && hex(after) === hex(now.root);
  }

  /** Checks where the time-stamps are in the log, that each is of its checkpoint, and, given roots, who made them. */
  async function timestamps({ timestamps: stamps }, links, key, heads, roots) {
    if (!stamps) return "Not yet time-stamped: the packet holds no time-stamp, so only the service says when its entries were written.";
    must(stamps.length <= 8 && stamps.every(({ anchor }, at) => (anchor === null) === (at === stamps.length - 1)),
      "There are too many time-stamps, or one of them is not renewed by the next.");
    const read = [];
    let [covers, beyond] = [null, links[0].index];
    for (const { checkpoint, consistency, response, anchor } of stamps) {
      const head = await openCheckpoint(checkpoint, key);
      const path = consistency.map((hash) => fromBase64(hash, 32) ?? fail("A hash beside a time-stamp is not one."));
      must(await continues(head, links[0].head, path), "The ledger of the entries does not continue the one that was stamped.");
      must(beyond < head.size, "A time-stamp covers none of the entries, or not the time-stamp before it.");
      covers ??= head.size;
      const bytes = fromBase64(response) ?? fail("A time-stamp is not valid base64.");
      read.push((inBrowser ? readToken : readStamp)(bytes, await sha256(utf8((await openNote(checkpoint, key)).text))));
      if (!anchor) continue;
      const { link, fact } = await ofTheLedger(anchor, "log.anchored", "anchor", links[0], key, heads);
      must(BigInt(fact.treeSize) === head.size && fact.responseHash === `sha256:${hex(await sha256(bytes))}`,
        "The entry that should commit to a time-stamp commits to another.");
      beyond = link.index;
    }
    if (roots === undefined) return "The time-stamps are of states of the ledger that the entries' one continues. Who made them was not checked.";
    // Each is judged at the time of the one that renewed it, the last one now.
    read.forEach((stamp, at) => trust(stamp, roots, read[at + 1]?.time ?? Date.now()));
    const covered = links.filter(({ index }) => index < covers).length;
    return `By ${new Date(read[0].time).toISOString()}, the first ${covered} of ${links.length} entries existed: a root that you trust vouches for `
      + `the authority that stamped them${read.length > 1 ? `, renewed ${read.length - 1} times` : ""}.`;
  }

  // Only the library of Node.js reads certificates and verifies their signatures.
  const inBrowser = typeof require === "undefined";
  const node = () => (inBrowser ? fail("A browser cannot check who made a time-stamp.") : require("crypto"));
  const DIGESTS = { "608648016503040201": "sha256", "608648016503040202": "sha384", "608648016503040203": "sha512" };
  const [PKCS, SIGNED_DATA, TST_INFO] = ["2a864886f70d01", "2a864886f70d010702", "2a864886f70d0109100104"];

  /** The elements of DER in a row: of each the tag, the content, and all of its bytes. */
  function der(bytes) {
    const elements = [];
    for (let at = 0; at < bytes.length; ) {
      let [start, size] = [at + 2, bytes[at + 1]];
      must(start <= bytes.length && (bytes[at] & 31) < 31 && size !== 128 && size <= 132, "The time-stamp is not DER.");
      if (size > 128) {
        const digits = bytes.subarray(start, start + size - 128);
        must(digits.length === size - 128 && digits[0], "The time-stamp is not DER.");
        [start, size] = [start + digits.length, digits.reduce((sum, digit) => sum * 256 + digit, 0)];
        must(size > 127, "The time-stamp is not DER.");
      }
      must(start + size <= bytes.length, "The time-stamp is cut.");
      const element = { tag: bytes[at], content: bytes.subarray(start, start + size), all: bytes.subarray(at, start + size) };
      elements.push({ ...element, hex: hex(element.content) });
      at = start + size;
    }
    return elements;
  }
  const inside = (element, expected = 0x30) => (must(element?.tag === expected, "The time-stamp is not one of RFC 3161."), der(element.content));
  const digestOf = (algorithm) => DIGESTS[inside(algorithm)[0].hex] ?? fail("A digest of the time-stamp is too weak or not supported.");

  /** The fields of a certificate, after its version. */
  const fieldsOf = (certificate) => inside(inside(der(certificate)[0])[0]).filter(({ tag }) => tag !== 0xa0);

  /** The extensions of a certificate: of each the identifier, the value, and whether it is critical. DER leaves out what is false. */
  function extensionsOf(certificate) {
    const all = fieldsOf(certificate).find(({ tag }) => tag === 0xa3);
    return (all ? inside(inside(all, 0xa3)[0]) : []).map((one) => {
      const [oid, ...fields] = inside(one);
      const value = fields.pop();
      must(value?.tag === 4 && fields.every(({ tag, hex: flag }) => tag === 1 && flag === "ff"), "A certificate of a time-stamp is not DER.");
      return { id: oid.hex, critical: fields.length > 0, value: der(value.content)[0] };
    });
  }
  const extension = (certificate, id) => extensionsOf(certificate).find((one) => one.id === id);

  /** Whether a signer's name is that of the certificate: its issuer and number, or the id of its key. */
  function names(version, name, certificate) {
    const [number, , issuer] = fieldsOf(certificate);
    if (version.hex !== "01") return name.tag === 0x80 && extension(certificate, "551d0e")?.value.hex === name.hex;
    const [itsIssuer, itsNumber] = inside(name);
    return hex(itsIssuer.all) === hex(issuer.all) && hex(itsNumber.all) === hex(number.all);
  }

  /** Reads a response that stamps an imprint. Who signed it is left open. */
  function readToken(response, imprint) {
    must(response.length <= 32 * 1024, "The time-stamp is too long.");
    const [outer, trailing] = der(response);
    const [status, token, more] = inside(outer);
    must(!trailing && !more && ["00", "01"].includes(inside(status)[0].hex), "The authority refused a time-stamp.");
    const [kind, explicit] = inside(token);
    const [version, , content, ...rest] = inside(inside(explicit, 0xa0)[0]);
    const [kindOfContent, holder] = inside(content);
    const [info, ...others] = inside(holder, 0xa0);
    must(kind.hex === SIGNED_DATA && version.hex === "03" && kindOfContent.hex === TST_INFO && info.tag === 4 && !others.length, "This is not a time-stamp.");
    const listOf = rest.filter(({ tag }) => tag === 0xa0).flatMap((list) => der(list.content));
    const [signer, another] = inside(rest.at(-1), 0x31);
    must(signer && listOf.length <= 16 && !another, "The time-stamp has too many certificates, or not one signer.");
    const certificates = listOf.filter(({ tag }) => tag === 0x30).map(({ all }) => all);

    const [edition, , what, , at, ...extensions] = inside(der(info.content)[0]);
    must(edition.hex === "01", "The time-stamp is of another version.");
    // DER leaves out what is false.
    must(extensions.every(({ tag, hex: flag }) => tag !== 1 || flag === "ff"), "The time-stamp is not DER.");
    const parts = extensions.filter(({ tag }) => tag === 0xa1).flatMap((one) => der(one.content)).flatMap((one) => inside(one));
    must(parts.every(({ tag }) => tag !== 1), "The time-stamp has an extension that must be understood and is not.");
    const [function_, stamped] = inside(what);
    must(digestOf(function_) === "sha256" && stamped.hex === hex(imprint), "The time-stamp is of another state of the ledger.");
    const time = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\.\d{0,8}[1-9])?Z$/.exec(String.fromCharCode(...at.content));
    must(at.tag === 0x18 && time, "The time-stamp has no time in DER.");
    const [, year, month, day, hour, minute, second, fraction] = time;
    const whole = `${year}-${month}-${day}T${hour}:${minute}:${second}.000Z`;
    must(isTime(whole), "The time-stamp is of no day of the calendar.");
    return { certificates, signer, info, time: Date.parse(whole) + Math.floor(Number(fraction ?? 0) * 1000) };
  }

  /** Reads a response whose signature is that of the certificate in it. Whose certificate that is, only a path to a root shows. */
  function readStamp(response, imprint) {
    const { certificates, signer, info, time } = readToken(response, imprint);
    const { constants, createHash, verify } = node();
    const hashed = (kind, bytes) => createHash(kind).update(bytes).digest("hex");
    // RFC 5652: what is signed is the attributes, as a SET, and they name the content's digest and the certificate.
    const [signerVersion, name, algorithm, attributes, signing, signature] = inside(signer);
    must(attributes.tag === 0xa0 && signature.tag === 4, "The time-stamp's signature covers no attributes.");
    const said = new Map();
    for (const attribute of der(attributes.content)) {
      const [oid, values] = inside(attribute);
      const [value, more] = inside(values, 0x31);
      must(value && !more && !said.has(oid.hex), "A signed attribute of the time-stamp is there twice.");
      said.set(oid.hex, value);
    }
    const digest = digestOf(algorithm);
    must(said.get(`${PKCS}0903`)?.hex === TST_INFO && said.get(`${PKCS}0904`)?.hex === hashed(digest, info.content),
      "The time-stamp's signature is of another content.");
    const own = certificates.filter((one, at) => names(signerVersion, name, one) && certificates.findIndex((same) => hex(same) === hex(one)) === at);
    must(own.length === 1, "The time-stamp does not hold one certificate of its signer.");
    const ids = [["0910020c", "sha1"], ["0910022f", "sha256"]].filter(([oid]) => said.has(PKCS + oid)); // RFC 2634 and RFC 5035
    must(ids.length, "The time-stamp's signature does not name its certificate.");
    for (const [oid, usual] of ids) {
      const fields = inside(inside(inside(said.get(PKCS + oid))[0])[0]);
      const its = fields[0].tag === 0x30 ? digestOf(fields.shift()) : usual;
      must(fields[0].tag === 4 && fields[0].hex === hashed(its, own[0]), "The time-stamp's signature names another certificate.");
    }
    const certificate = readCertificate(own[0]);
    const padding = inside(signing)[0].hex === `${PKCS}010a` ? constants.RSA_PKCS1_PSS_PADDING : constants.RSA_PKCS1_PADDING;
    must(strong(certificate), "The signer's key is too weak or not supported.");
    const key = certificate.publicKey.asymmetricKeyType === "ec" ? certificate.publicKey : { key: certificate.publicKey, padding };
    must(verify(digest, joined([0x31], attributes.all.subarray(1)), key, signature.content), "The signature of a time-stamp does not verify.");
    return { certificate, others: certificates.filter((one) => one !== own[0]).map(readCertificate), time };
  }

  /** Whether a certificate's key is of a kind and length that proves something. Lengths of RSA are counted in whole bytes. */
  function strong({ publicKey: { asymmetricKeyType: kind, asymmetricKeyDetails: details } }) {
    if (kind === "rsa") return details.modulusLength > 2040 && details.modulusLength <= 8192;
    return kind === "ec" && ["prime256v1", "secp384r1"].includes(details.namedCurve);
  }

  /** Checks that one of the roots vouches for the signer of a time-stamp, at its time and at `until`. */
  function trust({ certificate, others, time }, roots, until) {
    const purpose = extension(certificate.raw, PURPOSES);
    must(purpose?.critical && inside(purpose.value).map((one) => one.hex).join() === TIME_STAMPING,
      "The certificate of a time-stamp's signer is not for time-stamps alone.");
    const constraints = extension(certificate.raw, CONSTRAINTS);
    must(!constraints || !inside(constraints.value).some(({ tag, hex: flag }) => tag === 1 && flag !== "00"),
      "The certificate of a time-stamp's signer is one of an authority for certificates.");
    // After the number of unused bits: the first two are for signatures, the others for something else.
    const uses = extension(certificate.raw, USES)?.value.content;
    must(!uses || (uses.length === 2 && uses[1] && !(uses[1] & 0x3f)), "The certificate of a time-stamp's signer is not for signatures alone.");
    must(time <= until + 5 * 60 * 1000, "A time-stamp is of a later time than it can be.");
    for (const at of [time, Math.max(time, until)]) {
      must(leads(certificate, others, roots, at, 0), `No root that you trust vouches for the certificate of a time-stamp at ${new Date(at).toISOString()}.`);
    }
  }

  // Extensions of certificates: what the key may do, who may stand below, which names may, and for what the certificate may be used.
  const [USES, CONSTRAINTS, NAMES, PURPOSES] = ["551d0f", "551d13", "551d1e", "551d25"];
  const TIME_STAMPING = "2b06010505070308";

  /** Whether a certificate below a root may be used for time-stamps, and no critical extension is left out of account here. */
  function serves({ raw }) {
    return extensionsOf(raw).every(({ id, critical, value }) =>
      id === PURPOSES ? inside(value).some((one) => one.hex === TIME_STAMPING) : !critical || id === USES || id === CONSTRAINTS);
  }

  /** Whether certificates that are all valid, and may be used for this, lead from this one to a root. */
  function leads(certificate, others, roots, at, below) {
    const valid = ({ validFrom, validTo }) => Date.parse(validFrom) <= at && at <= Date.parse(validTo);
    const issued = (issuer) => {
      // It also checks that the issuer's key may sign certificates.
      if (!issuer.ca || !valid(issuer) || !certificate.checkIssued(issuer)) return false;
      // Constraints on names are not compared here, so whoever has some vouches for nobody.
      if (extension(issuer.raw, NAMES)) return false;
      const limit = inside(extension(issuer.raw, CONSTRAINTS).value).find(({ tag }) => tag === 2);
      return (!limit || parseInt(limit.hex, 16) >= below) && strong(issuer) && certificate.verify(issuer.publicKey);
    };
    if (below > 5 || !valid(certificate) || !serves(certificate)) return false;
    return roots.some(issued) || others.some((one) => issued(one) && leads(one, others.filter((other) => other !== one), roots, at, below + 1));
  }

  /** Reads the certificates of authorities (PEM). */
  function readRoots(text) {
    const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? fail("There is no certificate among the roots of time-stamp authorities.");
    must(blocks.length === text.split("-----BEGIN CERTIFICATE-----").length - 1, "One of the roots of time-stamp authorities is not PEM.");
    const roots = blocks.map(readCertificate);
    must(roots.every(({ ca }) => ca), "One of the roots of time-stamp authorities is not an authority's.");
    return roots;
  }

  function readCertificate(bytes) {
    const { X509Certificate } = node();
    try {
      return new X509Certificate(bytes);
    } catch (error) {
      return fail(`A certificate of a time-stamp authority cannot be read: ${error.message}.`);
    }
  }

  // ---- The facts: what the entries say, and the booking they add up to

  /** When each kind of fact happened. */
  const HAPPENED_AT = {
    "booking.created": (fact) => fact.createdAt,
    "booking.protected": (fact) => fact.protectedAt,
    "booking.rescheduled": (fact) => fact.rescheduledAt,
    "terms.accepted": (fact) => fact.acceptedAt,
    "booking.canceled": (fact) => fact.canceledAt,
    "evidence.added": (fact) => fact.addedAt,
    "evidence.erased": (fact) => fact.erasedAt,
    "resolution.created": ({ resolution }) => madeAt(resolution),
    "webhook.settled": ({ notification }) => notification.settledAt,
  };
  const madeAt = (resolution) => (resolution.decision ? resolution.decision.decidedAt : resolution.canceledAt);
  /** The first six bytes of an id are its time in milliseconds. */
  const idMadeAt = (id) => new Date(parseInt(/^[a-z]+_([0-9a-f]{12})[0-9a-f]{20}$/.exec(id)?.[1] ?? "", 16));
  const later = (...times) => times.reduce((latest, one) => (one > latest ? one : latest));
  const wholeSecond = (text) => text.replace(/\.[0-9]{3}Z$/, ".000Z");

  /** Reads what an entry says. What is withheld or erased has a fixed text instead, if the entry cannot be without it. */
  function readFact(entry, withheld, erased, leaf) {
    const kind = entry.body.kind;
    const fact = Object.create(null);
    for (const name of erased) if (Object.hasOwn(ERASED, name)) fact[name] = ERASED[name];
    for (const { name, value } of entry.disclosures) fact[name] = value;
    for (const name of ["organizer", "talent"]) {
      if (withheld.includes(name) && Object.hasOwn(entry.body.sd, name)) fact[name] = { id: "withheld", name: "withheld" };
    }
    if (kind === "resolution.created") join(fact);
    shaped(kind, fact);
    const { evidence, evidenceCount } = fact;
    must(evidenceCount === undefined || (evidenceCount > 0 && (!evidence || evidence.length === evidenceCount)), "The cancellation counts more or fewer documents than it names.");
    must(HAPPENED_AT[kind](fact) <= leaf.t, `What ${kind} says happened after its entry was written.`);
    return { kind, fact };
  }

  /** Joins a decision and its words, which are values of their own so that they can be erased. */
  function join(fact) {
    const { decidedBy, rationale, resolution } = fact;
    if (decidedBy === undefined && rationale === undefined) return;
    const decision = isObject(resolution) ? resolution.decision : undefined;
    must(isObject(decision), "The resolution has the words of a decision, but records no decision.");
    must(!("decidedBy" in decision) && !("rationale" in decision), "The decision has its words twice.");
    must(isText(decidedBy) && isText(rationale), "The decision lacks some of its words.");
    fact.resolution = { ...resolution, decision: { ...decision, decidedBy, rationale } };
    delete fact.decidedBy;
    delete fact.rationale;
  }

  /** Adds up the facts of a booking, oldest first. Refuses one that is out of place. */
  async function fold(facts) {
    const [{ kind, fact: first }, ...rest] = facts;
    must(kind === "booking.created", `The first entry is ${kind}, not booking.created.`);
    const booking = { ...first, status: "created", protected: false };
    delete booking.termsHash;
    const state = { booking, termsHash: first.termsHash, moves: [], acceptances: [], items: [], settled: [], resolutions: [], cancellation: null };
    for (const next of rest) await apply(state, next);
    must(state.booking.status !== "canceled" || state.resolutions.length, "The cancellation has no resolution after it.");
    return state;
  }

  async function apply(state, { kind, fact }) {
    const { booking } = state;
    const open = booking.status !== "canceled";
    const own = (id) => must(id === booking.bookingId, `The entry ${kind} is not one of booking ${booking.bookingId}.`);
    if (kind === "booking.protected" && booking.status === "created") {
      const moved = state.moves.at(-1);
      const inForce = moved ? await named(canonical(moved.terms)) : state.termsHash;
      must(fact.termsHash === inForce, "The terms locked by the protection are not the ones in force then.");
      Object.assign(booking, { status: "protected", protected: true, protectedAt: fact.protectedAt });
    } else if (kind === "booking.rescheduled" && open) {
      const earliest = state.moves.length ? state.moves.at(-1).former.at : booking.createdAt;
      const at = wholeSecond(later(fact.at ?? fact.rescheduledAt, earliest, booking.createdAt));
      must(fact.former.at === at, "The move does not follow the booking's recording or the move before it.");
      state.moves.push(fact);
      Object.assign(booking, { eventDate: fact.eventDate, rescheduledAt: fact.rescheduledAt });
      delete booking.timeZone;
      if (fact.timeZone !== undefined) booking.timeZone = fact.timeZone;
    } else if (kind === "terms.accepted" && open) {
      own(fact.bookingId);
      state.acceptances.push({ fact, moves: state.moves.length });
    } else if (kind === "booking.canceled" && open) {
      own(fact.bookingId);
      Object.assign(booking, { status: "canceled", canceledAt: fact.canceledAt });
      state.cancellation = fact;
    } else if (kind === "evidence.added" && (open || state.resolutions.length)) {
      own(fact.bookingId);
      must(state.items.every(({ itemId }) => itemId !== fact.itemId), `Evidence item ${short(fact.itemId)} was added twice.`);
      state.items.push(fact);
    } else if (kind === "evidence.erased" && (open || state.resolutions.length)) {
      own(fact.bookingId);
    } else if (kind === "resolution.created" && !open) {
      resolve(state, fact.resolution);
    } else if (kind === "webhook.settled" && (open || state.resolutions.length)) {
      settle(state, fact.notification);
    } else {
      fail(`The entry ${kind} cannot follow the booking's entries before it.`);
    }
  }

  /** Adds a resolution: the first is the cancellation's, the second the decision of what the first left open. */
  function resolve(state, resolution) {
    const { booking, cancellation } = state;
    const pending = state.resolutions.at(-1);
    const { resolutionId, summary, evaluation, decision } = resolution;
    let expected = null;
    if (!pending) {
      const { canceledBy, reason, effectiveAt, canceledAt, bookingId } = cancellation;
      const status = evaluation.evaluationStatus === "review_required" ? "pending_review" : "final";
      const evidenceGrade = booking.protected ? "ledger_anchored" : "record_only";
      expected = { bookingId, partnerId: booking.partnerId, status, evidenceGrade, canceledBy, reason, effectiveAt, canceledAt };
    } else if (pending.status === "pending_review" && decision && resolutionId !== pending.resolutionId) {
      expected = { ...pending, status: "decided", supersedes: pending.resolutionId, decision };
    }
    expected = expected && { ...expected, resolutionId, summary, evaluation };
    for (const name in expected) if (expected[name] === undefined) delete expected[name];
    must(
      expected && same(expected, resolution) && evaluation.bookingId === booking.bookingId,
      "The resolution neither results from the booking's cancellation nor decides what the cancellation left open.",
    );
    booking.resolutionId = resolutionId;
    state.resolutions.push(resolution);
  }

  const causes = ({ booking, resolutions }) => [
    ["booking.created", booking.createdAt],
    ...(booking.protectedAt ? [["booking.protected", booking.protectedAt]] : []),
    ...resolutions.map((resolution) => ["resolution.created", madeAt(resolution)]),
  ];
  /** How many events of this type, made when this one was, the booking has a cause for. */
  const causeCount = (state, type, eventId) =>
    causes(state).filter(([cause, at]) => cause === type && Date.parse(at) === idMadeAt(eventId).getTime()).length;
  const delivered = (notification) => notification.outcome === "delivered";

  /** Adds the entry of how a delivery ended. */
  function settle(state, next) {
    const told = `The entry of how the delivery of event ${short(next.eventId)} ended contradicts itself`;
    must(next.attempts > 0 && next.seq > 0, `${told}: it counts from nothing.`);
    const accepted = next.statusCode >= 200 && next.statusCode <= 299;
    const sound = next.outcome === "delivered" ? accepted && next.error === undefined : next.error !== undefined;
    must(sound, `${told}: its outcome is not that of its last attempt.`);
    const answered = next.responseSha256 === undefined || next.statusCode !== undefined;
    must(answered, `${told}: it has the digest of an answer that never came.`);
    const others = new Set();
    for (const known of state.settled) {
      const sameEvent = known.eventId === next.eventId;
      const alike = ["type", "seq", "bodySha256"].every((name) => known[name] === next[name]);
      must(sameEvent === (known.seq === next.seq) && (!sameEvent || alike), `${told}: another entry has the same event with other content.`);
      if (!sameEvent && known.type === next.type && +idMadeAt(known.eventId) === +idMadeAt(next.eventId)) others.add(known.eventId);
      const again = sameEvent && known.endpointId === next.endpointId;
      const retried = !delivered(known) && delivered(next) && known.attempts < next.attempts;
      must(!again || retried, `${told}: only a delivery that was given up can end again, by being accepted.`);
    }
    must(causeCount(state, next.type, next.eventId) > others.size, `${told}: no earlier entry shows what the event reports.`);
    state.settled.push(next);
  }

  // ---- What the packet shows: it must be what the facts say

  function sameBooking(packet, state) {
    const { policy, terms } = packet;
    // Without a prototype: the packet may show members of any name.
    const recorded = Object.assign(Object.create(null), state.booking);
    if (policy) {
      const { policyId, version } = policy;
      recorded.policy = { policyId, version, policyHash: terms.adopted, policySource: terms.source };
    }
    const names = new Set([...Object.keys(recorded), ...Object.keys(packet.booking)]);
    const wrong = [...names].filter((name) => !same(recorded[name], packet.booking[name]));
    const said = wrong.map((name) => `${name}: the packet shows ${short(packet.booking[name])}, the ledger recorded ${short(recorded[name])}`);
    must(!said.length, `The booking is not shown as the ledger recorded it. ${said.join("; ")}.`);
    return `The booking is shown exactly as these entries of the ledger say, status ${recorded.status} included.`;
  }

  async function samePolicy({ policy, policyHash, terms, formerTerms }) {
    must(policyHash === (terms.adopted ?? null), "The policy shown is not the one the terms name.");
    const sourced = [...formerTerms, terms].every(({ source }) => (source === null) === (policy === null));
    must((policy === null) === (policyHash === null) && sourced, "The terms name a policy but the packet shows none, or the reverse.");
    if (policy === null) return "The terms were fixed without a cancellation policy.";
    must((await named(canonical(policy))) === policyHash, "The text of the cancellation policy is not that of the one the terms name.");
    return `The cancellation policy, ${short(policy.policyId)} version ${short(policy.version)}, is word for word the one the terms name.`;
  }

  async function sameTerms(packet, state) {
    const shown = [...packet.formerTerms, packet.terms];
    const hash = await named(canonical(shown[0]));
    must(hash === state.termsHash, "The terms shown are not the ones fixed when the booking was recorded.");
    const moved = state.moves.map((move) => move.terms);
    must(same(shown.slice(1), moved), "The terms shown are not the ones fixed when the event was moved, or some are missing.");
    const dates = state.moves.map((move) => move.former.previousEventDate);
    must(same(dates, packet.formerTerms.map(({ date }) => date)), "A move names a former date that is not the date in the terms before it.");
    const policies = new Set(shown.map((terms) => terms.adopted));
    must(policies.size === 1, "The terms after a move name another policy; the policy must stay the same.");
    return `The terms are the ones fixed in the ledger, in ${shown.length === 1 ? "one version" : `${shown.length} versions`}.`;
  }

  async function sameAcceptances(packet, state) {
    const texts = packet.termsDisclosures;
    // For each of the terms the versions in which they were accepted; any one if they were not.
    const places = [...state.moves, null].flatMap((_, moves) => {
      const own = state.acceptances.filter((accepted) => accepted.moves === moves).map(({ fact }) => fact.disclosureVersion);
      return [...new Set(own.length ? own : [null])].sort().map((accepted) => ({ moves, accepted }));
    });
    must(texts.length === places.length, "There is not one text for each version of the terms and each wording that was accepted.");
    for (const [at, { text, disclosureHash, version }] of texts.entries()) {
      const known = ["bookguard-disclosure-1", "bookguard-disclosure-2"].includes(version);
      must(known, `The wording of a text is of a version that is not known: ${short(version)}.`);
      must([null, version].includes(places[at].accepted), "A text of the terms is in another wording than was accepted.");
      must((await named(text)) === disclosureHash, "A text of the terms does not have the hash it is shown with.");
    }
    const recorded = state.acceptances.map(({ fact }) => fact);
    must(same(recorded, packet.acceptances), "The acceptances shown are not the ones recorded.");
    for (const { fact, moves } of state.acceptances) {
      const at = places.findIndex((place) => place.moves === moves && place.accepted === fact.disclosureVersion);
      must(fact.disclosureHash === texts[at].disclosureHash, `What ${short(fact.party)} accepted is not the text of the terms in force then.`);
    }
    return recorded.length
      ? `${recorded.length} recorded: each is of exactly the text shown that was in force then.`
      : "No entry in the packet is an acceptance.";
  }

  function sameItems({ items }, state) {
    must(same(state.items, items), "The evidence items shown are not the ones recorded.");
    return items.length ? `${items.length} recorded: each is shown as the partner stated it.` : "No entry in the packet is an evidence item.";
  }

  function sameResolution({ resolution }, state) {
    const latest = state.resolutions.at(-1) ?? null;
    must(latest || resolution === null, "The packet shows a resolution that none of its entries holds.");
    must(same(latest, resolution), "The resolution shown is not the latest one recorded in the packet.");
    return latest ? "The resolution is the latest one recorded in the packet." : "No entry in the packet is a resolution, and the packet shows none.";
  }

  function sameEvaluation({ evaluation, booking }, state) {
    const latest = state.resolutions.at(-1);
    must(!evaluation || evaluation.bookingId === booking.bookingId, "The evaluation shown is another booking's.");
    must(!latest || same(evaluation, latest.evaluation), "The evaluation shown is not the one that was recorded when the booking was canceled.");
    return latest ? "The evaluation is that of the resolution." : "The booking is not canceled, so no evaluation was recorded.";
  }

  function sameDeliveries({ deliveries }, state) {
    const most = causes(state).length * 50;
    must(deliveries.length <= most, `The packet shows more deliveries (${deliveries.length}) than its entries account for.`);
    deliveries.forEach((delivery, place) => {
      const before = deliveries.slice(0, place);
      const refuse = (why) => fail(`The delivery of event ${short(delivery.eventId)} cannot have happened as shown: ${why}.`);
      const ofTime = (other) => other.type === delivery.type && +idMadeAt(other.eventId) === +idMadeAt(delivery.eventId);
      const events = new Set([delivery, ...before.filter(ofTime)].map((other) => other.eventId));
      if (events.size > causeCount(state, delivery.type, delivery.eventId)) refuse("no entry shows what the event reports");
      for (const other of before.filter(({ eventId }) => eventId === delivery.eventId)) {
        if (other.type !== delivery.type) refuse("the event is shown with two types");
        if (other.endpointId === delivery.endpointId || !other.endpointId || !delivery.endpointId) refuse("it is shown twice");
      }
      const own = state.settled.filter((end) => end.endpointId === delivery.endpointId && end.eventId === delivery.eventId);
      if (!same(own, delivery.recorded)) refuse("how it ended is not shown as the ledger records it");
      if (!soundStatus(delivery)) refuse("its status is not what the ledger records and what else is shown of it");
      if (!soundHistory(delivery)) refuse("its attempts cannot have led to what is recorded");
    });
    const shown = (end) => deliveries.some((delivery) => delivery.endpointId === end.endpointId && delivery.eventId === end.eventId);
    const hidden = state.settled.find((end) => !shown(end));
    must(!hidden, `The ledger records how the delivery of event ${short(hidden?.eventId)} ended, and the packet does not show it.`);
    const ended = deliveries.filter(({ recorded }) => recorded.length).length;
    const said = ended
      ? `How ${ended === 1 ? "1 notification" : `${ended} notifications`} ended is shown exactly as the ledger records it.`
      : "None of the packet's entries is the end of a notification.";
    return `${said} The rest is what the service says.`;
  }

  function soundStatus({ status, attempts, recorded, endpointId, url, type }) {
    const last = recorded.at(-1);
    const nowhere = status === "no_endpoints";
    if ((endpointId === null) !== nowhere || (url === null) !== nowhere || (last && last.type !== type)) return false;
    if (status === "delivered") return Boolean(last) && delivered(last) && last.attempts === attempts;
    if (status === "failed") return !last || (!delivered(last) && last.attempts <= attempts);
    return (nowhere || status === "pending") && attempts === 0 && !last;
  }

  function soundHistory({ status, attempts, recorded, history }) {
    if (!history.length) return true;
    if (history.length !== Math.min(attempts, 20)) return false;
    for (const end of recorded) {
      const attempt = history[end.attempts - 1 - (attempts - history.length)];
      if (attempt && (attempt.statusCode !== (end.statusCode ?? null) || attempt.error !== (end.error ?? null))) return false;
    }
    const accepted = history.findIndex((attempt) => attempt.error === null);
    return accepted === (status === "delivered" ? history.length - 1 : -1);
  }

  // ---- The packet as a whole

  /** Reads a packet and checks the form of its members. The text may be spelled otherwise: its canonical form is signed. */
  function readPacket(text) {
    must(text.length <= PACKET_BYTES && utf8(text).length <= PACKET_BYTES, `The file is longer than any packet (${PACKET_BYTES} bytes).`);
    const packet = readJson(text);
    must(packet?.type === "bookguard.evidence/1", `The document is not an evidence packet of type bookguard.evidence/1 but ${short(packet?.type)}.`);
    shaped("packet", packet);
    must(packet.timestamps?.length !== 0, "The packet names no time-stamps, and says that it has some.");
    return packet;
  }

  /** Checks the note that signs the packet, and what it says of the booking's entries. */
  async function signature(packet, key) {
    const { signature: note, ...rest } = packet;
    const refused = (why) => fail(`The packet as a whole is not what the ledger key signed: ${why}. Some part of it was changed, or it comes from another service.`);
    let opened = null;
    try {
      opened = await openNote(note, key);
    } catch (fault) {
      if (!(fault instanceof Fault)) throw fault;
      refused(fault.message);
    }
    const last = packet.entries.at(-1);
    const leaf = (last && fromBase64(last.leaf)) ?? refused("its last entry has no leaf");
    const size = /\n\n[^\n]*\n([0-9]+)\n/.exec(last.proof)?.[1] ?? "";
    const lines = ["bookguard.packet/1", base64(await sha256(utf8(canonical(rest)))), packet.stream, packet.entries.length, hex(await leafHash(leaf)), size];
    const told = opened.text.slice(0, -1).split("\n");
    const names = ["its kind", "the digest of its content", "its stream", "the number of its entries", "its last entry", "the size of the log"];
    const wrong = names.findIndex((_, at) => told[at] !== String(lines[at]));
    if (wrong >= 0 || told.length !== lines.length) refused(`${names[wrong] ?? "its form"} is not what was signed`);
    if (opened.signatures !== 1) refused("it carries more than one signature");
    return "The packet as a whole is signed by the ledger key: nothing in it was changed since it was issued.";
  }

  function sameKey({ log }, key) {
    must(log.vkey === key.vkey, `The packet belongs to ledger ${short(log.origin)} with a key other than the one given (${key.name}).`);
    must(log.origin === key.name, `The packet calls its ledger ${short(log.origin)}, but its key names ${key.name}.`);
    return `The packet names the ledger ${key.name} and the very key given.`;
  }

  /** Verifies a packet, a text or its bytes, against the log's verifier key. Never throws for what a packet holds. */
  async function verifyPacket(input, vkey, witnessPolicy, timestampRoots) {
    const checks = [];
    const report = { verified: false, bookingId: null, createdAt: null, entries: 0, ledger: null, fingerprint: null, checks, notChecked: NOT_CHECKED };
    const check = async (name, place, work) => {
      let [passed, detail, value] = [true, "", null];
      try {
        const result = await work();
        [detail, value] = typeof result === "string" ? [result, true] : [result.said, result.value];
      } catch (fault) {
        // Forged parts may have any form; a part that cannot even be walked through is not what it should be.
        [passed, detail] = [false, fault instanceof Fault ? fault.message : `This part of the packet does not have its form (${fault.message}).`];
      }
      checks.push({ name, place, passed, detail: detail.length > 1000 ? `${detail.slice(0, 1000)}…` : detail });
      return passed ? value : null;
    };
    const done = () => {
      report.verified = checks.length > 0 && checks.every(({ passed }) => passed);
      return report;
    };
    const key = await check("key", "", async () => ({ said: "", value: await usableKey(bare(vkey)) }));
    if (!key) return done();
    checks.pop();
    report.fingerprint = await fingerprintOf(vkey);
    const packet = await check("form", "", () => form(input));
    if (!packet) return done();
    if (packet.timestamps && timestampRoots === undefined) report.notChecked = `${STAMPS_NOT_CHECKED} ${NOT_CHECKED}`;
    Object.assign(report, { bookingId: packet.booking.bookingId ?? null, createdAt: packet.createdAt, entries: packet.entries.length });
    await check("signature", "/signature", () => signature(packet, key));
    await check("key", "/log", () => sameKey(packet, key));
    const heads = new Map();
    const links = [];
    let [whole, erased] = [true, null];
    for (const [at, entry] of packet.entries.entries()) {
      const link = await check("proof", `/entries/${at}/proof`, async () => {
        const value = await prove(entry, key, heads);
        return { said: `This entry, written ${value.leaf.t}, is at place ${value.index} of the ledger, which then had ${entriesOf(value.head.size)}.`, value };
      });
      const opened = link && (await check("commitment", `/entries/${at}/body`, () => committed(entry, link.leaf)));
      const shown = opened && (await check("disclosures", `/entries/${at}/disclosures`, () => {
        erased ??= erasures(packet.entries);
        return disclosed(entry, packet.withheld, erased[at]);
      }));
      whole &&= Boolean(shown);
      links.push(link);
    }
    if (!whole || !(await check("chain", "/entries", () => chain(packet, links)))) return done();
    const { origin, size, root: rootHash } = links[0].head;
    report.ledger = { origin, treeSize: Number(size), rootHash: hex(rootHash) };
    const state = await check("booking", "/entries", async () => {
      const facts = packet.entries.map((entry, at) => readFact(entry, packet.withheld, erased[at], links[at].leaf));
      return { said: "The entries follow one another as those of a booking do.", value: await fold(facts) };
    });
    if (!state) return done();
    await check("booking", "/booking", () => sameBooking(packet, state));
    await check("policy", "/policy", () => samePolicy(packet));
    await check("terms", "/terms", () => sameTerms(packet, state));
    await check("acceptances", "/acceptances", () => sameAcceptances(packet, state));
    await check("items", "/items", () => sameItems(packet, state));
    await check("resolution", "/resolution", () => sameResolution(packet, state));
    await check("evaluation", "/evaluation", () => sameEvaluation(packet, state));
    await check("deliveries", "/deliveries", () => sameDeliveries(packet, state));
    await check("timestamps", packet.timestamps ? "/timestamps" : "", () =>
      timestamps(packet, links, key, heads, timestampRoots === undefined ? undefined : readRoots(timestampRoots)));
    await check("complete", packet.completeness ? "/completeness" : "", () => complete(packet, links, key, heads));
    if (witnessPolicy !== undefined) {
      await check("witnesses", "/entries/0/proof", async () => cosigned(links[0].checkpoint, await readPolicy(witnessPolicy), key));
    }
    return done();
  }

  function form(input) {
    let text = input;
    if (typeof input !== "string") {
      must(input.byteLength <= PACKET_BYTES, `The file is longer than any packet (${PACKET_BYTES} bytes).`);
      try {
        text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(input);
      } catch {
        fail("The file is not text in UTF-8.");
      }
    }
    const value = readPacket(text);
    const said = "The packet is a complete bookguard.evidence/1 document";
    if (canonical(value) === text.replace(/\n$/, "")) return { said: `${said} in the form in which the service writes it.`, value };
    return { said: `${said}. It was reformatted since it was issued, which changes nothing of what it says.`, value };
  }

  /** SHA-256 of a key's 32 bytes, in hex: what people compare. */
  async function fingerprintOf(vkey) {
    return hex(await sha256((await readKey(bare(vkey))).bytes));
  }

  /** Whether this program has what it needs. */
  async function canVerify() {
    try {
      const key = Uint8Array.from({ length: 32 }, (_, at) => (at ? 0x66 : 0x58));
      await subtle().importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
      return true;
    } catch {
      return false;
    }
  }

  Object.assign(root, { verifyPacket, canVerify, fingerprintOf });
  if (typeof module === "undefined" || typeof require === "undefined") return;
  module.exports = { verifyPacket, canVerify, fingerprintOf };
  if (require.main !== module) return;

  const usage = (why) => {
    console.error(`${why}\nusage: node verify.js PACKET KEYFILE [--timestamp-roots FILE] [--witness-policy FILE]`);
    process.exit(2);
  };
  const given = process.argv.slice(2);
  const fileOf = (name) => {
    const at = given.indexOf(name);
    return at < 0 ? undefined : given.splice(at, 2)[1] || usage(`${name} names a file: give one after it.`);
  };
  const [policyFile, rootsFile] = [fileOf("--witness-policy"), fileOf("--timestamp-roots")];
  const [packetFile, keyFile, ...more] = given;
  if (!packetFile || !keyFile || more.length) usage("Two files are needed: the packet, and the verifier key from the service's /v1/ledger/key.");
  const read = (path) => {
    try {
      return require("fs").readFileSync(path);
    } catch (error) {
      return usage(`${path} cannot be read: ${error.message}`);
    }
  };
  const readText = (path) => {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(read(path));
    } catch {
      return usage(`${path} is not text in UTF-8.`);
    }
  };
  const [packet, vkey] = [read(packetFile), readText(keyFile)];
  const others = [["<", "a page"], ["%PDF", "a PDF"], ["PK\x03\x04", "a ZIP archive"]];
  const other = others.find(([begin]) => packet.toString("latin1", 0, 4).startsWith(begin));
  if (other) usage(`${packetFile} is ${other[1]} and not a packet: take its packet.json, and check that.`);
  const policy = policyFile === undefined ? undefined : readText(policyFile);
  const roots = rootsFile === undefined ? undefined : read(rootsFile).toString("latin1");
  canVerify()
    .then((able) => able || usage("This Node.js has no Ed25519 in WebCrypto; version 18 or later has."))
    .then(async () => {
      await usableKey(bare(vkey));
      if (policy !== undefined) await readPolicy(policy);
      if (roots !== undefined) readRoots(roots);
    })
    .catch((fault) => usage(fault.message))
    .then(() => verifyPacket(packet, vkey, policy, roots))
    .then((report) => {
      for (const { passed, name, place, detail } of report.checks) {
        console.log(`${passed ? "ok    " : "FAILED"}  ${name.padEnd(11)}  ${detail.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "\ufffd")}${place && `  (${place})`}`);
      }
      console.log(report.verified ? `VERIFIED: booking ${report.bookingId}.` : "NOT VERIFIED. Do not rely on this packet.");
      console.log(report.notChecked);
      process.exitCode = report.verified ? 0 : 1;
    });
})(globalThis);
