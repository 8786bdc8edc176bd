// Links to evidence as people get them, in a browser: the page that names nobody, the evidence that its buttons lead to, and
// what a link shows that shows nothing.
import assert from "node:assert/strict";
import { mkdir, readFile, readdir } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as pause } from "node:timers/promises";

import { ask, booked, RENOWNED } from "./service.mjs";
import { accessible, complaints, inBrowser, outside } from "./watched.mjs";

const { BASE, KEY, PARTNER, WORK } = process.env;
const root = join(dirname(fileURLToPath(import.meta.url)), "../../..");
const { verifyPacket } = createRequire(import.meta.url)(join(root, "docs/verifiers/verify.js"));
const ORGANIZER = "Acme Events";
const downloads = join(WORK, "downloads");

const id = await booked(BASE, KEY, ORGANIZER);
const shares = `/v1/bookings/${id}/shares`;
const share = async () => (await ask(BASE, KEY, shares, { note: "the bank" })).json();
const button = (form) => `document.querySelector("[formaction='?form=${form}']")`;

// A page for people, in any light and on a small screen.
async function shown(page) {
  assert.deepEqual(await page.evaluate(`[document.title, document.scripts.length, document.querySelectorAll("meta").length]`), ["Evidence", 0, 2]);
  await page.call("Emulation.setDeviceMetricsOverride", { width: 320, height: 640, deviceScaleFactor: 1, mobile: false });
  assert.equal(await page.evaluate("document.documentElement.scrollWidth <= 320"), true, "the page is wider than a small screen");
  await accessible(page);
}

async function cover(browser, { url, shareId }) {
  const page = await browser.open(url);
  const whole = await page.evaluate("document.documentElement.outerHTML");
  for (const name of [RENOWNED, ORGANIZER, "Interface", PARTNER, id, shareId, "the bank", url.split("/s/")[1]]) {
    assert(!whole.includes(name), `the page of a link names ${name}`);
  }
  assert.deepEqual(complaints(page, [BASE]), []);
  await shown(page);
  assert.deepEqual((await (await ask(BASE, KEY, shares)).json()).data[0].recentViews, [], "looking at the page is not a view");
}

async function evidence(browser, { url }) {
  const page = await browser.open(url);
  await page.evaluate(`${button("page")}.click()`);
  await page.until(`document.getElementById("verdict")?.dataset.state === "verified"`, "the button opens evidence that verifies");
  const text = await page.evaluate("document.body.innerText");
  for (const said of [RENOWNED, ORGANIZER, "USD 1,200.50"]) assert(text.includes(said), said);
  assert.deepEqual(complaints(page, [BASE]), []);
}

// What a button downloads.
async function downloaded(page, form, ending) {
  await page.evaluate(`${button(form)}.click()`);
  for (let look = 0; look < 1000; look++) {
    const [name] = (await readdir(downloads)).filter((name) => name.endsWith(ending));
    if (name) return readFile(join(downloads, name));
    await pause(50);
  }
  throw new Error(`${form} downloads nothing that ends with ${ending}: ${await readdir(downloads)}`);
}

async function files(browser, { url }) {
  await mkdir(downloads);
  await browser.call("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: downloads });
  const page = await browser.open(url);
  assert.equal((await downloaded(page, "bank", ".pdf")).subarray(0, 5).toString(), "%PDF-");
  const packet = await downloaded(page, "packet", ".json");
  const vkey = (await (await ask(BASE, KEY, "/v1/ledger/key")).text()).trim();
  assert.equal((await verifyPacket(packet, vkey)).verified, true);
  assert.equal(await page.evaluate("location.href"), url);
  const [{ recentViews }] = (await (await ask(BASE, KEY, shares)).json()).data;
  assert.deepEqual(recentViews.map(({ form }) => form), ["packet", "pdf", "page"]);
}

// What is refused is said in words. The browser notes the status as the page's one fault.
async function refused(browser, url, status, words) {
  const page = await browser.open(url);
  assert((await page.evaluate("document.body.innerText")).includes(words), words);
  assert(page.faults.every((fault) => fault.includes(String(status))), page.faults.join("\n"));
  assert.deepEqual(outside(page.requests, [BASE]), []);
  const whole = await page.evaluate("document.documentElement.outerHTML");
  await shown(page);
  return whole;
}

async function dead(browser, { url, shareId }) {
  const headers = { "x-api-key": KEY };
  assert.equal((await fetch(`${BASE}${shares}/${shareId}`, { method: "DELETE", headers })).status, 200);
  const nothing = "This link shows nothing";
  const revoked = await refused(browser, url, 404, nothing);
  assert.equal(await refused(browser, url.slice(0, -1), 404, nothing), revoked);
  assert.equal(await refused(browser, `${BASE}/s/`, 404, nothing), revoked);
}

// While it is asked, some requests are allowed again, so it may take several turns.
async function tooMany(browser) {
  const url = `${BASE}/s/unknown`;
  const page = await browser.open(url);
  for (let turn = 0; !(await page.evaluate(`document.body.innerText.includes("Try again in a minute.")`)); turn++) {
    assert(turn < 100, "a network may ask as often as it likes");
    await Promise.all(Array.from({ length: 20 }, () => fetch(url)));
    await page.go(url);
  }
  await shown(page);
}

const link = await share();
assert(link.url.startsWith(`${BASE}/s/`), link.url);
const asked = await inBrowser("links", async (browser) => {
  await cover(browser, link);
  await evidence(browser, link);
  await files(browser, link);
  await dead(browser, link);
  await tooMany(browser);
});
assert.deepEqual(outside(asked, [BASE]), [], "requests to other hosts");
console.log("links: the page of a link names nobody, and its buttons open and download the evidence");
