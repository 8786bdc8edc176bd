// The evidence of bookings as people get it: the page in a browser, from a disk and from the server, /verify, and the verifier
// in JavaScript. Nothing that is changed in a packet or on its page may pass as verified.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { readFile, readdir, truncate, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";

import { ask, booked, RENOWNED } from "./service.mjs";
import { accessible, complaints, inBrowser, outside, serve } from "./watched.mjs";

const { BASE, BOOKGUARD, KEY, WORK } = process.env;
const root = join(dirname(fileURLToPath(import.meta.url)), "../../..");
const { verifyPacket } = createRequire(import.meta.url)(join(root, "docs/verifiers/verify.js"));
const HOSTILE = `</script><img src=x onerror="window.ran = 1">`;

// A booking to which everything happened that can happen.
async function eventful(base, key) {
  const id = await booked(base, key, HOSTILE);
  const accept = async (party) => {
    const { disclosureHash } = await (await ask(base, key, `/v1/bookings/${id}/disclosure`)).json();
    const at = new Date().toISOString();
    await ask(base, key, `/v1/bookings/${id}/acceptances`, { party, method: "checkbox", at, ip: "192.0.2.7", disclosureHash });
  };
  await accept("organizer");
  await ask(base, key, `/v1/bookings/${id}/protect`, {});
  await ask(base, key, `/v1/bookings/${id}/reschedule`, { eventDate: "2031-07-04T19:00:00", agreedBy: ["organizer", "talent"] });
  await accept("talent");
  const resolution = await ask(base, key, `/v1/bookings/${id}/cancel`, { canceledBy: "organizer", reason: "force_majeure", note: "storm" });
  const { resolutionId } = await resolution.json();
  const decision = { refund: 300.25, decidedBy: "Claims office", rationale: "The storm was proven." };
  await ask(base, key, `/v1/resolutions/${resolutionId}/decide`, decision);
  return id;
}

const as = (id, headers) => fetch(`${BASE}/v1/bookings/${id}/evidence`, { headers: { "x-api-key": KEY, ...headers } });

// ---- The forms of the answer

async function formsOf(id) {
  const page = await as(id, { accept: "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8" });
  assert.match(page.headers.get("content-type"), /^text\/html/);
  for (const accept of ["*/*", "application/json", "text/html;q=0.5, application/json", "application/problem+json"]) {
    const packet = await as(id, { accept });
    assert.equal(packet.headers.get("content-type"), "application/json", accept);
    assert.equal(packet.headers.get("vary")?.toLowerCase().includes("accept"), true);
    assert.notEqual(packet.headers.get("etag"), page.headers.get("etag"));
  }
  assert.equal((await as(id, { accept: "image/png" })).status, 406);
  assert.equal((await as("bkg_00000000000000000000000000000000", { accept: "text/html" })).status, 404);
  const [own, other] = [page, await as(id, {})].map((answer) => answer.headers.get("etag"));
  for (const [accept, tag, status] of [
    ["text/html", own, 304],
    ["text/html", other, 200],
    ["application/json", own, 200],
    ["application/json", other, 304],
    ["text/html", "*", 304],
  ]) {
    const again = await as(id, { accept, "if-none-match": tag });
    assert.equal(again.status, status, `${accept} ${tag}`);
    assert.equal((await again.text()) === "", status === 304);
  }
  const printed = new Map();
  for (const form of ["", "?form=bank", "?form=archive"]) {
    const pdf = await fetch(`${BASE}/v1/bookings/${id}/evidence${form}`, { headers: { "x-api-key": KEY, accept: "application/pdf" } });
    assert.equal(pdf.headers.get("content-type"), "application/pdf", form);
    assert.match(pdf.headers.get("content-disposition"), /^attachment; filename="[a-z0-9]{1,16}\.pdf"$/);
    const bytes = Buffer.from(await pdf.arrayBuffer());
    assert.equal(bytes.subarray(0, 5).toString(), "%PDF-", form);
    printed.set(pdf.headers.get("etag"), bytes.length);
  }
  assert.equal(printed.size, 2, "without a form it is the bank's");
  for (const accept of ["application/pdf", "text/html", "*/*"]) {
    const other = await fetch(`${BASE}/v1/bookings/${id}/evidence?form=poem`, { headers: { "x-api-key": KEY, accept } });
    assert.equal(other.status, 400, accept);
  }
  const policy = page.headers.get("content-security-policy");
  assert.match(policy, /^default-src 'none'; script-src 'sha256-.+frame-ancestors 'none'$/);
  assert.equal(page.headers.get("x-content-type-options"), "nosniff");
  return page.text();
}

// ---- The verifier

// Every place in a document that holds a value: its path, and its change.
function* places(value, path = []) {
  if (value === null || typeof value !== "object") return yield path;
  for (const name of Object.keys(value)) yield* places(value[name], [...path, name]);
  if (!Object.keys(value).length) yield path;
}

function changed(value) {
  if (typeof value === "string" && value) {
    const at = Math.floor(value.length / 2);
    return value.slice(0, at) + (value[at] === "7" ? "8" : "7") + value.slice(at + 1);
  }
  if (typeof value === "number") return value + 1;
  return typeof value === "boolean" ? !value : "7";
}

const holder = (document, path) => path.slice(0, -1).reduce((value, name) => value[name], document);

async function flips(text, vkey) {
  const original = JSON.parse(text);
  assert.equal((await verifyPacket(text, vkey)).verified, true, JSON.stringify((await verifyPacket(text, vkey)).checks.filter((c) => !c.passed)));
  const all = [...places(original)];
  assert(all.length >= 200, `only ${all.length} places`);
  const missed = [];
  const changes = all.flatMap((path) => ["flipped", "removed"].map((change) => [path, change])).values();
  const changer = async () => {
    for (const [path, change] of changes) {
      const document = structuredClone(original);
      const parent = holder(document, path);
      const name = path.at(-1);
      if (change === "flipped") parent[name] = changed(parent[name]);
      else if (Array.isArray(parent)) parent.splice(Number(name), 1);
      else delete parent[name];
      if ((await verifyPacket(JSON.stringify(document), vkey)).verified) missed.push(`${path.join("/")} ${change}`);
    }
  };
  // A check waits for the hashes of other threads half of its time.
  await Promise.all(Array.from({ length: 8 }, changer));
  assert.deepEqual(missed, [], "changes that pass as verified");
  // One name twice, half a character, a number without an exact form, an end that is cut, more after the end.
  for (const [from, to] of [
    [/^\{/, `{"type":"bookguard.evidence/1",`],
    [`"${RENOWNED}"`, `"\\ud83d"`],
    ["1200.5", "1200.50000000000000001e400"],
    [/\}$/, ""],
    [/\}$/, "}{}"],
    [/^\{/, "\ufeff{"],
  ]) {
    const broken = text.replace(from, to);
    assert.notEqual(broken, text);
    const report = await verifyPacket(broken, vkey);
    assert.deepEqual(report.checks.map(({ name, passed }) => [name, passed]), [["form", false]], String(to));
  }
  const reversed = (value) => {
    if (value === null || typeof value !== "object") return value;
    if (Array.isArray(value)) return value.map(reversed);
    return Object.fromEntries(Object.entries(value).reverse().map(([name, item]) => [name, reversed(item)]));
  };
  for (const spelled of [JSON.stringify(original, null, 2), JSON.stringify(reversed(original)), `${text}\n`]) {
    assert.equal((await verifyPacket(spelled, vkey)).verified, true);
  }
  for (const key of ["", "x", vkey.slice(1), vkey.replace(/[0-9a-f]{8}/, "00000000"), "example.com/log+7db0e2a1+AeTFbmWP1l9FsVkfX2mEl5ZzIkRtZyEMJvpFgvO7JFEN"]) {
    assert.equal((await verifyPacket(text, key)).verified, false, key);
  }
  return 2 * all.length;
}

// ---- The page in a browser

const stateOf = (page) => page.evaluate(`document.getElementById("verdict").dataset.state`);
async function settled(page, state) {
  await page.until(`!["checking", ""].includes(document.getElementById("verdict").dataset.state ?? "")`, "the check ends");
  const shown = await page.evaluate(`document.getElementById("verdict").innerText`);
  assert.equal(await stateOf(page), state, shown);
  return shown;
}

async function opened(browser, name, html) {
  const path = join(WORK, name);
  await writeFile(path, html);
  return browser.open(pathToFileURL(path).href);
}

async function pageFromDisk(browser, html) {
  const page = await opened(browser, "page.html", html);
  const shown = await settled(page, "verified");
  assert.match(shown, /^Verified: the packet in this page\./);
  assert.match(shown, /only as good as the place you got this file from/);
  assert.deepEqual(complaints(page, []), []);
  assert.equal(page.requests.length, 1, page.requests.join(" "));
  const text = await page.evaluate("document.body.innerText");
  for (const said of [HOSTILE, RENOWNED, "USD 1,200.50", "Ledger entry"]) assert(text.includes(said), said);
  assert.equal(await page.evaluate("document.images.length + (window.ran ?? 0)"), 0);
  assert.equal(await page.evaluate(`document.querySelector("h1").textContent`), "Evidence of a booking");
  assert.equal(await page.evaluate(`[...document.querySelectorAll(".headline bdi")].slice(0, 2).map((name) => name.textContent).join()`), `${HOSTILE},${RENOWNED}`);
  await page.call("Emulation.setDeviceMetricsOverride", { width: 320, height: 640, deviceScaleFactor: 1, mobile: false });
  assert.equal(await page.evaluate("document.documentElement.scrollWidth <= 320"), true, "the page is wider than a small screen");
  await accessible(page);
  const { data } = await page.call("Page.printToPDF", {});
  const printed = Buffer.from(data, "base64");
  assert(printed.subarray(0, 5).toString() === "%PDF-" && printed.length > 20_000, `printed were ${printed.length} bytes`);
  return page.evaluate(`document.getElementById("fingerprint").textContent`);
}

async function pageFromServer(browser, id) {
  // A browser sends no key by itself.
  const site = await serve(async (asked, answer) => {
    const page = await as(id, { accept: "text/html" });
    answer.writeHead(asked.url === "/page" ? page.status : 404, Object.fromEntries(page.headers));
    answer.end(asked.url === "/page" ? await page.text() : "");
  });
  const page = await browser.open(`${site.origin}/page`);
  await settled(page, "verified");
  assert.deepEqual(complaints(page, [site.origin]).filter((complaint) => !complaint.includes("favicon")), []);
  site.close();
  return site.origin;
}

// A changed page does not pass, whichever part was changed.
async function changedPages(browser, html) {
  const packet = /id="packet">([^<]+)</.exec(html)[1];
  const text = Buffer.from(packet, "base64").toString();
  const other = Buffer.from(text.replace("Claims office", "Claims 0ffice")).toString("base64");
  const fingerprint = /id="fingerprint">([^<]+)</.exec(html)[1];
  for (const [name, change] of Object.entries({
    sentence: (page) => page.replace(/(data-from="\/summary\/headline">)/, "$1Not "),
    name: (page) => page.replace(/(data-from="\/booking\/organizer\/name">)/, "$1Not "),
    value: (page) => page.replace(/(<dt>Value.*?)(\d)/, (_, before, digit) => before + (9 - digit)),
    amount: (page) => page.replace(/(<dt>Value.*?\d)[^<]+/, "$1"),
    start: (page) => page.replace(/(<dt>Event starts.*?)(\d)/, (_, before, digit) => before + (9 - digit)),
    status: (page) => page.replace(/(data-from="\/booking\/status">)/, "$1not "),
    unmarked: (page) => page.replace(` data-from="/summary/headline"`, ""),
    paragraph: (page) => page.replace(/<p data-from="\/summary\/story\/1">.*?<\/p>/, ""),
    entry: (page) => page.replace(/<li><time [^\n]*data-from="\/summary\/timeline\/1\/text"[^\n]*\n/, ""),
    terms: (page) => page.replace(` data-from="/termsDisclosures/0/text"`, ""),
    packet: (page) => page.replace(packet, other),
    fingerprint: (page) => page.replace(fingerprint, fingerprint.replace(/^./, (digit) => (digit === "0" ? "1" : "0"))),
  })) {
    assert.notEqual(change(html), html, name);
    const page = await opened(browser, `${name}.html`, change(html));
    assert.match(await settled(page, "failed"), /^NOT verified/, name);
  }
}

// Another service's page is sound in itself; its fingerprint is another.
async function forgedPage(browser, fingerprint) {
  const server = spawn(BOOKGUARD, ["serve", "--dev", "--listen", "127.0.0.1:0", "--db", join(WORK, "forger.db")], { stdio: ["ignore", "pipe", "pipe"] });
  try {
    const base = await new Promise((resolve, reject) => {
      let said = "";
      const heard = (bytes) => {
        said += bytes;
        const found = /^listening on (http:\/\/127\.0\.0\.1:[0-9]+)/m.exec(said);
        if (found) resolve(found[1]);
      };
      server.stdout.on("data", heard);
      server.stderr.on("data", heard);
      server.once("exit", () => reject(new Error(`the second server ended: ${said}`)));
    });
    const partner = { name: "Interface", businessType: "tests", contactEmail: "interface@example.com" };
    const { apiKey } = await (await ask(base, "", "/v1/partners/register", partner)).json();
    const id = await booked(base, apiKey, "Acme Events");
    const headers = { "x-api-key": apiKey, accept: "text/html" };
    const html = await (await fetch(`${base}/v1/bookings/${id}/evidence`, { headers })).text();
    const page = await opened(browser, "forged.html", html);
    await settled(page, "verified");
    assert.notEqual(await page.evaluate(`document.getElementById("fingerprint").textContent`), fingerprint);
  } finally {
    server.kill("SIGKILL");
  }
}

// ---- /verify

async function choose(page, path) {
  const { root } = await page.call("DOM.getDocument", {});
  const { nodeId } = await page.call("DOM.querySelector", { nodeId: root.nodeId, selector: "#file" });
  await page.evaluate(`document.getElementById("verdict").dataset.state = ""`);
  await page.call("DOM.setFileInputFiles", { nodeId, files: [path] });
}

// What the service makes of a packet besides the page, and one such archive whose files are said to be compressed.
async function documents(id) {
  const made = async (name, accept, form = "") => {
    const answer = await fetch(`${BASE}/v1/bookings/${id}/evidence${form}`, { headers: { "x-api-key": KEY, accept } });
    assert.equal(answer.headers.get("content-type"), accept);
    const bytes = Buffer.from(await answer.arrayBuffer());
    await writeFile(join(WORK, name), bytes);
    return bytes;
  };
  await made("bank.pdf", "application/pdf", "?form=bank");
  await made("archive.pdf", "application/pdf", "?form=archive");
  const zip = await made("evidence.zip", "application/zip");
  for (let at = zip.indexOf("PK\x01\x02"); at >= 0; at = zip.indexOf("PK\x01\x02", at + 1)) zip.writeUInt16LE(8, at + 10);
  await writeFile(join(WORK, "compressed.zip"), zip);
  // One without its end, and one whose end points nowhere.
  await writeFile(join(WORK, "cut.zip"), zip.subarray(0, 1000));
  zip.fill(0xff, zip.length - 10, zip.length - 2);
  await writeFile(join(WORK, "nowhere.zip"), zip);
}

async function verifyPage(browser, id, text, fingerprint) {
  const page = await browser.open(`${BASE}/verify`);
  await page.until(`document.querySelector("#ownkey code")`, "the service's key is shown");
  assert.equal(await page.evaluate(`document.querySelector("#ownkey code").textContent`), fingerprint);
  const [good, bad] = [join(WORK, "packet.json"), join(WORK, "tampered.json")];
  await writeFile(good, text);
  await writeFile(bad, text.replace("Claims office", "Claims 0ffice"));
  // A page that says what it likes, with a genuine packet where nobody sees it.
  const lying = join(WORK, "lying.html");
  const packet = Buffer.from(text).toString("base64");
  await writeFile(lying, `<!doctype html><p>All of it is to be returned.</p><!-- <script type="text/plain" id="packet">${packet}</script> -->`);
  const large = join(WORK, "large.html");
  await writeFile(large, "<!doctype html>");
  await truncate(large, 33 * 1024 * 1024);
  await documents(id);
  const inside = "What the file itself shows was not checked.";
  const notZip = (name) => [join(WORK, name), "unable", `Not checked: ${name} is a ZIP archive and not a packet.`, false];
  const notPdf = (name) => [join(WORK, name), "unable", `Not checked: ${name} is a PDF and not a packet.`, false];
  for (const [path, state, says, holds] of [
    [good, "verified", "Verified: packet.json", false],
    [bad, "failed", "NOT verified: tampered.json. Do not rely on it.", false],
    [join(WORK, "page.html"), "verified", "Verified: the packet in page.html", true],
    [lying, "verified", "Verified: the packet in lying.html", true],
    [join(WORK, "forged.html"), "failed", "NOT verified: forged.html. Do not rely on it.", false],
    [large, "failed", "NOT checked: large.html is larger than any packet.", false],
    [join(WORK, "evidence.zip"), "verified", "Verified: the packet in evidence.zip", true],
    ...["bank.pdf", "archive.pdf"].map(notPdf),
    ...["compressed.zip", "cut.zip", "nowhere.zip"].map(notZip),
  ]) {
    await choose(page, path);
    const shown = await settled(page, state);
    assert.equal(await page.evaluate(`document.querySelector("#verdict .result").textContent`), says);
    assert.equal(shown.includes(inside), holds, shown);
    assert.equal(await page.evaluate(`document.getElementById("content").hidden`), state !== "verified", path);
  }
  // A file whose reading fails once the next one is checked.
  await page.evaluate(`(() => {
    const read = Blob.prototype.arrayBuffer;
    Blob.prototype.arrayBuffer = () => {
      Blob.prototype.arrayBuffer = read;
      return new Promise((_, reject) => (window.fail = () => reject(new Error("it is gone"))));
    };
  })()`);
  await choose(page, bad);
  await page.until("window.fail", "the first file is being read");
  await choose(page, good);
  await settled(page, "verified");
  await page.evaluate("void window.fail(), new Promise((done) => setTimeout(done))");
  await settled(page, "verified");
  assert.equal(await page.evaluate("document.images.length + (window.ran ?? 0)"), 0);
  assert.match(await page.evaluate(`document.getElementById("verdict").textContent`), /Not recomputed here/);
  await accessible(page);
  const foreign = "example.com/log+7db0e2a1+AeTFbmWP1l9FsVkfX2mEl5ZzIkRtZyEMJvpFgvO7JFEN";
  await page.evaluate(`(() => {
    const field = document.getElementById("key");
    field.value = ${JSON.stringify(foreign)};
    field.dispatchEvent(new Event("input", { bubbles: true }));
    document.getElementById("verdict").dataset.state = "";
    field.dispatchEvent(new Event("change", { bubbles: true }));
  })()`);
  await settled(page, "failed");
  assert.deepEqual(complaints(page, [BASE]), []);
  const sent = page.requests.filter((address) => !["/verify", "/verify/page.css", "/verify/page.js", "/verify/verify.js", "/favicon.ico", "/v1/ledger/key"].some((path) => address === BASE + path));
  assert.deepEqual(sent, [], "what the page asked for besides itself and the key");
}

// ---- The command

async function command(text, vkey, html) {
  const [packet, out] = [join(WORK, "packet.json"), join(WORK, "made.html")];
  const run = (...args) => promisify(execFile)(BOOKGUARD, ["evidence", "page", ...args], { cwd: WORK });
  await run(packet, "--key", vkey, "--out", out);
  assert.equal(await readFile(out, "utf8"), html, "the command and the server make different pages");
  const refused = await run(join(WORK, "tampered.json"), "--key", vkey, "--out", join(WORK, "none.html")).catch((error) => error);
  assert.equal(refused.code, 6, refused.stderr);
  assert.equal((await readdir(WORK)).includes("none.html"), false);
}

// The published vectors; those marked so can be noticed only by a verifier that recomputes the policy or the sentences.
async function vectors() {
  const folder = join(root, "tests/vectors/packets");
  const { key, vectors } = JSON.parse(await readFile(join(folder, "index.json"), "utf8"));
  const keyFor = async (vector) => readFile(join(folder, vector.key ?? key), "utf8");
  const ofFile = (name) => readFile(join(folder, name), "utf8");
  const roots = (await Promise.all(["timestamp-roots.pem", "pss-roots.pem"].map(ofFile))).join("");
  let counted = 0;
  for (const vector of vectors) {
    if (["policy", "wording"].includes(vector.noticedBy)) continue;
    const given = vector.file.includes("timestamp") ? roots : undefined;
    const { verified } = await verifyPacket(await readFile(join(folder, vector.file)), await keyFor(vector), undefined, given);
    assert.equal(verified, vector.verdict === "verified", `${vector.file}: ${vector.why}`);
    counted++;
  }
  assert(counted > 100, `only ${counted} vectors`);
  return counted;
}

const vkey = (await (await fetch(`${BASE}/v1/ledger/key`)).text()).trim();
const id = await eventful(BASE, KEY);
// Deliveries end, or there are none: without endpoints the packet stays as it is.
const html = await formsOf(id);
const text = Buffer.from(/id="packet">([^<]+)</.exec(html)[1], "base64").toString();
const count = await flips(text, vkey);
const judged = await vectors();
const origins = [BASE];
const asked = await inBrowser("evidence", async (browser) => {
  const fingerprint = await pageFromDisk(browser, html);
  origins.push(await pageFromServer(browser, id));
  await changedPages(browser, html);
  await forgedPage(browser, fingerprint);
  await verifyPage(browser, id, text, fingerprint);
});
assert.deepEqual(outside(asked, origins), [], "requests to other hosts");
await command(text, vkey, html);
console.log(`evidence: ${judged} vectors, ${count} changes of a packet noticed; the page checks its packet, asks nobody, and prints`);
