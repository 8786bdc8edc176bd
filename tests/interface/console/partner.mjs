// The partner's console as people use it: every page in the light and in the dark, on a small screen, a tablet and a large one;
// its tasks without a script, and by keyboard alone; what its script adds; and a page of a hundred among ten thousand.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import { judging } from "./judge.mjs";
import { click, follow, press, seenFocus, type } from "./person.mjs";
import { ask, booked, receiver, registered, settled } from "../pages/service.mjs";
import { everyTask, field, keyboard, link, mouse, said, submit, use } from "./tasks.mjs";
import { complaints, inBrowser, outside } from "../pages/watched.mjs";

const { BASE, BOOKGUARD, SERVER } = process.env;
const CONSOLE = `${BASE}/console`;
const MANY = 10_000;
const MANY_MS = 20_000; // what may be spent on making them
const TURNS = 10;
// The most processor time of a page. A program without optimization is given more.
const BOUND_MS = BOOKGUARD.includes("/debug/") ? 150 : 50;
const LONG = `https://example.com/${"x".repeat(90)}`;

// ---- What there is to see

// A partner to whom everything happened that the console shows.
async function eventful(site) {
  const { apiKey: key } = await registered(BASE, "Console");
  const call = async (path, body) => (await ask(BASE, key, path, body)).json();
  const endpoint = (path, events) => call("/v1/webhook-endpoints", { url: site.origin + path, events, ownSecret: true, description: LONG });
  const [sick, down] = [await endpoint("/sick", ["booking.created"]), await endpoint("/down", ["booking.rescheduled"])];
  const [created, kept, canceled, review] = [await booked(BASE, key, LONG), await booked(BASE, key, "Kept"), await booked(BASE, key, "Canceled"), await booked(BASE, key, "Review")];
  for (const id of [kept, canceled, review]) await call(`/v1/bookings/${id}/protect`, {});
  await call(`/v1/bookings/${kept}/reschedule`, { eventDate: "2031-07-04T19:00:00", agreedBy: ["organizer", "talent"] });
  await call(`/v1/bookings/${kept}/shares`, { note: LONG });
  await call(`/v1/bookings/${canceled}/cancel`, { canceledBy: "organizer", reason: "changed_plans", note: LONG });
  await call(`/v1/bookings/${review}/cancel`, { canceledBy: "organizer", reason: "force_majeure" });
  await call("/v1/api-keys", { name: "Expires", scopes: ["bookings:read"], expiresAt: new Date(Date.now() + 3 * 86_400_000).toISOString() });
  for (const refundBps of [0, 2500]) {
    const policy = { name: LONG, organizer: { tiers: [{ before: "P14D", outcome: { refundBps: 10000 } }], late: { lesserOf: [{ refundBps }, { keepDeposit: true }] } } };
    await ask(BASE, key, "/v1/policies/house", policy, "PUT");
  }
  await ask(BASE, key, "/v1/partners/me", { defaultPolicies: { concert: "house", "*": "firm" } }, "PATCH");
  const failed = await settled("five deliveries fail", async () => {
    const { data } = await call("/v1/webhook-events?status=failed");
    return data.length === 5 && data;
  });
  const { eventId: tried } = failed.find(({ type }) => type === "booking.rescheduled");
  for (let turn = 0; turn < 10; turn++) await call(`/v1/webhook-events/${tried}/retry`, {});
  const { status } = await call(`/v1/webhook-endpoints/${down.endpointId}`);
  assert.equal(status, "failing");
  return { key, created, kept, canceled, review, tried, sick: sick.endpointId, down: down.endpointId };
}

// ---- Pages

const { judge, wrong, heard, count } = judging([BASE]);

async function opened(browser, path = "") {
  const page = await browser.open(CONSOLE + path);
  await page.call("Page.bringToFront");
  return page;
}

async function signIn(page, key) {
  await page.call("Network.clearBrowserCookies");
  await page.go(CONSOLE);
  await type(page, field("apiKey"), key);
  await follow(page, submit("/sign-in"));
  await said(page, "Overview");
}

// A form that is sent with what is typed and chosen, and the page that answers.
async function sent(page, name, path, typed, status = 200) {
  for (const [of, text] of Object.entries(typed)) await type(page, field(of), text);
  await follow(page, submit(path));
  await judge(page, name, status);
}

async function everyPage(browser, { key, created, kept, canceled, review, tried, sick, down }) {
  const page = await opened(browser);
  await judge(page, "sign-in");
  await sent(page, "sign-in refused", "/sign-in", { apiKey: "bgk_unknown" }, 401);
  await signIn(page, key);
  await judge(page, "overview");
  const at = async (name, path, status) => {
    await page.go(CONSOLE + path);
    await judge(page, name, status);
  };
  await at("bookings", "/bookings");
  await at("bookings refused", "/bookings?eventFrom=soon", 400);
  await at("bookings, none found", "/bookings?search=nobody-has-this");
  await at("error page", "/bookings/bkg_00000000000000000000000000000000", 404);
  for (const [name, id] of Object.entries({ created, kept, canceled, review })) await at(`booking, ${name}`, `/bookings/${id}`);
  await at("protect", `/bookings/${created}/protect`);
  await at("cancel", `/bookings/${kept}/cancel`);
  await page.evaluate("document.querySelector('[name=\"/canceledBy\"]').value = 'organizer'");
  await sent(page, "cancel with its result", "/cancel", { "/note": LONG });
  assert.equal(await page.evaluate("document.activeElement.getAttribute('aria-labelledby')"), "outcome");
  await sent(page, "cancel, to be changed", "/cancel", {});
  await sent(page, "cancel refused", "/cancel", { "/agreedRefund": "much" }, 400);
  await at("reschedule", `/bookings/${kept}/reschedule`);
  await page.evaluate("document.querySelector('[type=datetime-local]').value = '2031-07-05T19:00'");
  await sent(page, "reschedule refused", "/reschedule", { "/timeZone": "Mars/Olympus" }, 400);
  await at("reschedule", `/bookings/${kept}/reschedule`);
  await page.evaluate("document.querySelector('[type=datetime-local]').value = '2032-03-14T02:30'");
  await page.evaluate("document.querySelectorAll('[type=checkbox]').forEach((box) => (box.checked = true))");
  await sent(page, "reschedule with its result", "/reschedule", {});
  await at("reviews", "/reviews");
  await at("reviews, all", "/reviews?status=all");
  await at("reviews, none", "/reviews?status=decided");
  await at("decide", `/bookings/${review}/decide`);
  await at("hold", `/bookings/${kept}/hold`);
  await sent(page, "hold refused", "/hold", { "/reason": " " }, 400);
  await at("hold", `/bookings/${kept}/hold`);
  await sent(page, "booking, held", "/hold", { "/reason": LONG });
  await follow(page, "main a[href*='/holds/']");
  await judge(page, "release a hold");
  await at("erase", `/bookings/${created}/erase`);
  await page.evaluate("document.querySelector('[name=\"/legalBasis\"]').value = 'objection'");
  await sent(page, "erase refused", "/erase", {}, 400);
  await page.evaluate("document.querySelector('[name=\"/party\"]').value = 'everybody'");
  await page.evaluate("document.querySelector('[name=\"/legalBasis\"]').value = 'objection'");
  await sent(page, "erase with what would go", "/erase", { "/requestRef": LONG.slice(0, 60) });
  await at("share", `/bookings/${kept}/share`);
  await sent(page, "shared", "/share", { "/note": "the bank" });
  await page.go(`${CONSOLE}/bookings/${kept}`);
  await follow(page, "main a[href*='/shares/']");
  await judge(page, "revoke a share");
  await at("deliveries", "/deliveries");
  await at("deliveries, none", "/deliveries?status=no_endpoints&type=api_key.expiring");
  await at("deliveries refused", "/deliveries?status=soon", 400);
  await at("delivery", `/deliveries/${tried}`);
  await at("recover", "/deliveries/recover");
  await sent(page, "recover with its count", "/recover", {});
  await at("endpoints", "/endpoints");
  await at("endpoint", `/endpoints/${down}`);
  await sent(page, "endpoint tested", "/test", {});
  await at("change an endpoint", `/endpoints/${sick}/change`);
  await at("rotate a secret", `/endpoints/${sick}/rotate-secret`);
  await sent(page, "new secret", "/rotate-secret", {});
  await at("remove an endpoint", `/endpoints/${sick}/remove`);
  await at("add an endpoint", "/endpoints/new");
  await sent(page, "add an endpoint refused", "/endpoints/new", { "/url": "ftp://example.com/x" }, 400);
  await policyPages(page, at);
  await at("keys", "/keys");
  await at("create a key", "/keys/new");
  await sent(page, "new key", "/keys/new", { "/name": "A key" });
  await page.go(`${CONSOLE}/keys`);
  await follow(page, link("/rotate"));
  await judge(page, "rotate a key");
  await page.go(`${CONSOLE}/keys`);
  await follow(page, link("/revoke"));
  await judge(page, "revoke a key");
  await at("invite", "/people/new");
  await sent(page, "invited", "/people/new", { "/person": "Ann" });
  const url = await page.evaluate("document.querySelector('[data-copy]').textContent");
  await at("audit", "/audit");
  await page.call("Network.clearBrowserCookies");
  await page.go(url);
  await judge(page, "link");
  await follow(page, "main button");
  await judge(page, "overview of somebody invited");
  await said(page, "Overview");
  await page.go(url);
  await follow(page, "main button");
  await judge(page, "link used up", 404);
}

async function policyPages(page, at) {
  await at("policies", "/policies");
  await at("policy of the library", "/policies/talent_standard");
  await at("policy", "/policies/house");
  await at("policy's example refused", "/policies/house?eventDate=soon", 400);
  await at("two versions compared", "/policies/house?version=2&against=1");
  await sent(page, "default refused", "/default", { eventType: "-" }, 400);
  await at("new policy", "/new-policy");
  await sent(page, "new policy refused", "/new-policy", { "/organizer/tiers/0/before": "a month", "/deposit/figure": "x" }, 400);
  await follow(page, use("add"));
  await judge(page, "new policy with another step");
  await at("policy with fixed amounts", "/new-policy?from=hotel_guaranteed_6pm");
  await follow(page, use("json"));
  await judge(page, "policy as JSON");
  await sent(page, "policy as JSON refused", "/new-policy", { json: '{"organizer": 1}' }, 400);
  await at("change a policy", "/policies/house/change");
  await follow(page, use("fields"));
  await judge(page, "policy that fields cannot say");
  await follow(page, use("review"));
  await judge(page, "policy before it is put");
}

// ---- Tasks

// From the first page, with a mouse: what failed is found and sent again.
async function mended(browser, site, { key }) {
  const page = await opened(browser);
  await signIn(page, key);
  site.mended = true;
  const clicks = [link("/deliveries?status=failed"), "tbody a[href*='/deliveries/']", submit("/retry")];
  for (const selector of clicks) await follow(page, selector);
  assert(clicks.length <= 4);
  await said(page, "accepted");
  site.mended = false;
}

// The browser notes the status of a form that was refused.
const unexpected = (page) => complaints(page, [BASE]).filter((complaint) => !/Failed to load resource.* 400 /.test(complaint));

async function withoutScript(browser, site, { key }) {
  const page = await opened(browser);
  await page.call("Emulation.setScriptExecutionDisabled", { value: true });
  await everyTask(mouse(page), BASE, site, key);
  assert.equal(await page.evaluate("document.querySelectorAll('button[type=button]').length"), 0);
  assert.deepEqual(unexpected(page), []);
}

async function byKeyboard(browser, site, { key }) {
  const page = await opened(browser);
  await signIn(page, key);
  await press(page, "Tab");
  await seenFocus(page);
  assert.equal(await page.evaluate("document.activeElement.className"), "skip");
  await press(page, "Enter");
  await page.until("document.activeElement.id === 'main'", "the link that skips leads to the content");
  await everyTask(keyboard(page), BASE, site, key);
  assert.deepEqual(unexpected(page), []);
}

// The meaning of a policy is renewed while it is typed, with what is wrong, and nothing is put.
async function previewed(page) {
  await page.go(`${CONSOLE}/new-policy?from=firm`);
  await page.evaluate("window.seen = document.querySelector('[role=status][data-live]')");
  const shows = (text) => page.until(`document.querySelector(".preview").innerText.includes("${text}")`, `the preview shows ${text}`);
  await type(page, field("/organizer/tiers/0/before"), "45");
  await shows("at least 45 days before the event: 100 % is returned");
  await type(page, field("bookingValue"), "640");
  await shows("320.00");
  // Whoever went on with the keyboard keeps their place when it is renewed.
  await type(page, field("bookingValue"), "641");
  await page.evaluate("document.querySelector('[data-live] [tabindex]').focus()");
  await shows("320.50");
  assert(await page.evaluate("document.activeElement.matches('[data-live] [tabindex]')"), "the focus stays where it was");
  await type(page, field("/organizer/tiers/1/outcome/figure"), "half");
  await shows("is not a percentage");
  await shows("1 thing to correct");
  await type(page, field("/organizer/tiers/1/outcome/figure"), "60");
  await shows("It can be used");
  assert(await page.evaluate("window.seen === document.querySelector('[role=status][data-live]')"), "what is read out stays");
  assert.equal(await page.evaluate("document.querySelector('[name=\"/organizer/tiers/0/before\"]').value"), "45");
  await page.call("Network.emulateNetworkConditions", { offline: true, latency: 0, downloadThroughput: 0, uploadThroughput: 0 });
  await type(page, field("/name"), "Offline");
  await shows("not up to date");
  await page.call("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  page.faults.length = 0;
  await type(page, field("/name"), "Online");
  await shows("It can be used");
}

// What the script adds. The page's clock runs fifty times as fast.
async function scripted(browser, site, { key, down, kept }) {
  const hold = () => {
    let release;
    site.held = new Promise((resolve) => (release = resolve));
    return release;
  };
  const page = await opened(browser);
  await page.call("Page.addScriptToEvaluateOnNewDocument", { source: "const wait = setTimeout; window.setTimeout = (act, ms) => wait(act, ms / 50)" });
  await signIn(page, key);
  await browser.call("Browser.grantPermissions", { origin: BASE, permissions: ["clipboardReadWrite", "clipboardSanitizedWrite"] });
  await page.go(`${CONSOLE}/bookings/${kept}`);
  await click(page, "[data-copy] + button");
  await settled("the id is copied", async () => (await page.evaluate("navigator.clipboard.readText()")) === kept);
  const named = (word) => page.until(`document.querySelector("[data-copy] + button").getAttribute("aria-label") === "${word} ${kept}"`, `the button is named ${word}`);
  await named("Copy");
  // The clock runs too fast to see the other name, so it is noted.
  await page.evaluate(`window.names = []; new MutationObserver(([{ target }]) => names.push(target.ariaLabel)).observe(document.querySelector("[data-copy] + button"), { attributeFilter: ["aria-label"] })`);
  await click(page, "[data-copy] + button");
  await page.until(`names[0] === "Copied ${kept}"`, "the button says that it copied");

  const deliver = hold();
  const { webhookEvents } = await (await ask(BASE, key, `/v1/bookings/${await booked(BASE, key, "Held")}/webhook-events`)).json();
  const pending = webhookEvents[0].eventId;
  await page.go(`${CONSOLE}/deliveries/${pending}`);
  const asked = () => page.requests.filter((address) => address.endsWith(pending)).length;
  const stop = "[data-refresh] button";
  // Soon: an attempt ends by itself within 15 seconds, and then there is nothing to wait for.
  await settled("the page shows what is new", async () => asked() > 1);
  await click(page, stop);
  await page.until(`!document.querySelector("${stop}")`, "the page can be stopped");
  const told = await page.evaluate("document.querySelector('[data-refresh]').textContent");
  assert.equal(told, "Load the page again to see what changed.");
  assert(await page.evaluate("document.activeElement.matches('[data-refresh]')"), "the focus is on what is told");
  // One may be under way.
  await page.evaluate("new Promise((resolve) => setTimeout(resolve, 3000))");
  const before = asked();
  await page.evaluate("new Promise((resolve) => setTimeout(resolve, 15000))");
  assert.equal(asked(), before, "a page that was stopped goes on");

  await page.go(`${CONSOLE}/deliveries/${pending}`);
  // A request that fails does not end it.
  await page.evaluate("{ const real = fetch; window.fetch = () => ((window.fetch = real), Promise.reject(new TypeError())); } void 0");
  await page.until("!String(fetch).includes('reject')", "a request failed");
  deliver();
  await page.until("document.querySelectorAll('[data-refreshed] .badge.bad').length > 1", "the outcome appears by itself");
  await page.until(`!document.querySelector("${stop}")`, "there is nothing to wait for any more");
  assert.equal(await page.evaluate("document.querySelectorAll('[data-copy] + button').length"), 1, "what is new can be copied too");

  await previewed(page);

  await page.go(`${CONSOLE}/endpoints/${down}`);
  const answer = hold();
  site.tests = 0;
  await page.leads(async () => {
    await click(page, submit("/test"), 2);
    await settled("the test arrives", () => site.tests > 0);
    answer();
  });
  assert.equal(site.tests, 1);
  assert.equal(page.requests.filter((address) => address.endsWith("/test")).length, 1);
  assert.deepEqual(complaints(page, [BASE]), []);
}

// ---- Ten thousand

// The server's processor time in milliseconds, which other programs on this machine do not lengthen. Linux counts it in steps of 10 ms.
function spent() {
  const [user, system] = readFileSync(`/proc/${SERVER}/stat`, "utf8").split(") ")[1].split(" ").slice(11, 13);
  return (Number(user) + Number(system)) * 10;
}

async function many() {
  const { apiKey: key } = await registered(BASE, "Console");
  const end = Date.now() + MANY_MS;
  let made = 0;
  const maker = async () => {
    while (made < MANY && Date.now() < end) {
      made++;
      await booked(BASE, key, `Organizer ${made}`);
    }
  };
  await Promise.all(Array.from({ length: 16 }, maker));
  const answer = await fetch(`${CONSOLE}/sign-in`, {
    method: "POST",
    redirect: "manual",
    headers: { "sec-fetch-site": "same-origin" },
    body: new URLSearchParams({ apiKey: key }),
  });
  const cookie = answer.headers.get("set-cookie").split(";")[0];
  const shown = [];
  for (const path of ["/bookings", "/deliveries"]) {
    const before = spent();
    for (let turn = 0; turn < TURNS; turn++) {
      const page = await (await fetch(CONSOLE + path, { headers: { cookie } })).text();
      assert.equal(page.split('<tr role="row">').length - 2, 100, path);
    }
    const each = (spent() - before) / TURNS;
    assert(each <= BOUND_MS, `${path} takes ${each} ms`);
    shown.push(`${path} ${each.toFixed(0)} ms`);
  }
  return `100 of ${made} on a page: ${shown.join(", ")}`;
}

const site = await receiver();
const all = await eventful(site);
const asked = await inBrowser("console", async (browser) => {
  await everyPage(browser, all);
  heard(new URL("partner.txt", import.meta.url).pathname);
  await mended(browser, site, all);
  await withoutScript(browser, site, all);
  await byKeyboard(browser, site, all);
  await scripted(browser, site, all);
});
site.close();
assert.deepEqual(wrong, []);
assert.deepEqual(outside(asked, [BASE]), [], "requests to other hosts");
console.log(`console: ${count()} pages judged; ${await many()}`);
