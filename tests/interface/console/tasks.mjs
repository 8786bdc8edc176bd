// Every task of both consoles. A hand is how somebody does it: with a mouse while no script runs, or by keyboard alone.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { choose, click, follow, press, tabTo, type, write } from "./person.mjs";
import { ask, booked, registered, settled } from "../pages/service.mjs";

export const submit = (path) => `form[action$="${path}"] button`;
export const link = (path) => `main a[href$="${path}"]`;
export const field = (name) => `[name="${name}"]`;
export const use = (what) => `button[name=do][value="${what}"]`;
const box = (name, value) => `[name="${name}"][value="${value}"]`;

// 4 July 2031, 19:00, as somebody types it into the parts of a date and time.
async function writeTime(page) {
  await write(page, "07042031");
  await press(page, "Tab");
  await write(page, "0700P");
}

export const mouse = (page) => ({
  page,
  open: (selector) => follow(page, selector),
  fill: (selector, text) => type(page, selector, text),
  pick: (selector, word) => choose(page, selector, word),
  tick: (selector) => click(page, selector),
  async time(selector) {
    await page.evaluate(`document.querySelector(${JSON.stringify(selector)}).focus()`);
    await writeTime(page);
  },
});

export const keyboard = (page) => ({
  page,
  async open(selector) {
    await tabTo(page, selector);
    await page.leads(() => press(page, "Enter"));
  },
  async fill(selector, text) {
    // A page may have set the focus to what is next.
    if (!(await page.evaluate(`document.activeElement.matches(${JSON.stringify(selector)})`))) await tabTo(page, selector);
    await write(page, text);
  },
  async pick(selector, word) {
    await tabTo(page, selector);
    await choose(page, selector, word);
  },
  async tick(selector) {
    await tabTo(page, selector);
    await press(page, " ");
  },
  async time(selector) {
    await tabTo(page, selector);
    await writeTime(page);
  },
});

export async function said(page, words) {
  const text = await page.evaluate("document.querySelector('main').innerText");
  assert(text.includes(words), `${await page.evaluate("location.pathname")} lacks "${words}":\n${text}`);
}

// ---- Whether the tables have all

const sources = join(dirname(fileURLToPath(import.meta.url)), "../../../bookguard-server/src");
const below = (places, path) => places.map((place) => path + place);

// Where a file of the console says that a form may be sent, in each of its lists.
async function lists(file) {
  const text = await readFile(join(sources, file), "utf8");
  const all = text.split(/^(?:pub\(\w+\) )?fn \w*places\(\)/m).slice(1);
  return all.map((list) => [...list.matchAll(/place!\("([^"]*)"[^)]*\b(?:post|form) /g)].map(([, path]) => path));
}

const [partners] = await lists("console.rs");
const [operators, account] = await lists("console/operator.rs");
const ABOUT = "/partners/:partnerId";
export const PARTNERS_FORMS = partners;
export const OPERATORS_FORMS = [...operators, ...below(account, ABOUT), ...below(partners, ABOUT)];
assert(partners.length > 20 && operators.length > 1 && account.length > 4, "the lists of places are read");

// Every form was sent by whoever had this page.
export function sentAll(page, console, forms) {
  const paths = page.sent.map((address) => new URL(address).pathname.replace(new URL(console).pathname, ""));
  const is = (form) => new RegExp(`^${form.replaceAll(/:\w+/g, "[^/]+")}$`);
  const missed = forms.filter((form) => !paths.some((path) => is(form).test(path)));
  assert.deepEqual(missed, [], "forms that no task sends");
}

// ---- What a partner's people do

// Signs in, does everything once, and signs out.
export async function everyTask(hand, base, site, key) {
  const { page, open, fill } = hand;
  await page.call("Network.clearBrowserCookies");
  await page.go(`${base}/console`);
  await fill(field("apiKey"), key);
  await open(submit("/sign-in"));
  await said(page, "Overview");
  await partnersTasks(hand, "Console", base, site, key);
  await open(submit("/sign-out"));
  await said(page, "Sign in to Bookguard");
  sentAll(page, `${base}/console`, PARTNERS_FORMS);
}

// An event that nobody accepts.
async function unaccepted(base, site, key, name) {
  const call = async (path, body) => (await ask(base, key, path, body)).json();
  await call("/v1/webhook-endpoints", { url: `${site.origin}/${encodeURIComponent(`${name} ${Date.now()}`)}`, events: ["booking.created"], ownSecret: true });
  const id = await booked(base, key, name);
  await settled("a delivery fails", async () => (await call(`/v1/webhook-events?status=failed&bookingId=${id}`)).data.length > 0);
}

// Does everything once, in the pages to which these links lead. What is done away with is made for it.
async function partnersTasks({ page, open, fill, pick, tick, time }, links, base, site, key) {
  const call = async (path, body) => (await ask(base, key, path, body)).json();
  const told = (words) => said(page, words);
  const part = (path) => open(`nav[aria-label="${links}"] a[href$="${path}"]`);
  const name = `Task ${Math.random()}`;
  const id = await booked(base, key, name);
  await part("/bookings");
  await fill(field("search"), name);
  await open(submit("/bookings"));
  await open(link(id));
  await open(link("/protect"));
  await open(submit("/protect"));
  await told("The booking is protected");
  await open(link("/reschedule"));
  await time(field("/eventDate"));
  await tick(box("/agreedBy", "organizer"));
  await open(submit("/reschedule"));
  // What was typed is still there.
  await told("both sides agree");
  await tick(box("/agreedBy", "talent"));
  await open(submit("/reschedule"));
  await told("This cannot be undone");
  await open(submit("/reschedule") + ".danger");
  await told("another date now");
  await told("4 Jul 2031, 19:00 New York time");
  await open(link("/share"));
  await fill(field("/note"), name);
  await open(submit("/share"));
  await told("It is shown only once");
  await open(link(id));
  await open("main a[href*='/shares/']");
  await open("main form button");
  await told("The link is revoked");
  await open(link("/cancel"));
  await pick(field("/canceledBy"), "Organizer");
  await pick(field("/reason"), "Changed plans");
  await open(submit("/cancel"));
  await told("This cannot be undone");
  await open(submit("/cancel") + ".danger");
  await told("The booking is canceled");
  await open(link("/hold"));
  await fill(field("/reason"), name);
  await open(submit("/hold"));
  await told("under a legal hold");
  await open("main a[href*='/holds/']");
  await open(submit("/release"));
  await told("The hold is released");
  await open(link("/erase"));
  await pick(field("/party"), "Talent");
  await pick(field("/legalBasis"), "Objection");
  await open(submit("/erase"));
  await told("What would go");
  await open("form:has([name=once])[action$='/erase'] button");
  await told("Erased for good");

  const review = await booked(base, key, name);
  await call(`/v1/bookings/${review}/cancel`, { canceledBy: "organizer", reason: "force_majeure" });
  await part("/reviews");
  await open(link(`${review}/decide`));
  await fill(field("/refund"), "300");
  await fill(field("/decidedBy"), "Ann");
  await fill(field("/rationale"), "Both sides were heard.");
  await open(submit("/decide"));
  await told("Decided:");

  await part("/policies");
  await open(link("/new-policy?from=firm"));
  await fill(field("/policyId"), `task-${Date.now()}`);
  await fill(field("/name"), name);
  await open(use("check"));
  await told("It can be used.");
  await open(use("add"));
  await page.until(`document.activeElement.name === "/organizer/tiers/2/before"`, "a new step has the focus");
  await fill(field("/organizer/tiers/2/before"), "48");
  await pick(field("/organizer/tiers/2/before/unit"), "hours");
  await fill(field("/organizer/tiers/2/outcome/figure"), "12.5");
  await open(use("review"));
  await told("48 hours before the event: 12.5 % is returned");
  await open(use("put"));
  await told("Version 1 is saved");
  await fill(`input${field("eventType")}:not([type=hidden])`, "concert");
  await open(`form:has(${field("eventType")}:not([type=hidden])) button`);
  await told("It is now the default for concert");
  await open(link("/change"));
  await fill(field("/name"), `${name}, changed`);
  await open(use("review"));
  await open(use("put"));
  await told("Version 2 is saved");

  await part("/endpoints");
  await open(link("/endpoints/new"));
  await fill(field("/url"), `${site.origin}/${encodeURIComponent(name)}`);
  await tick(box("/ownSecret", "true"));
  await open(submit("/endpoints/new"));
  await told("It is shown only once");
  await open("main a.button[href*='/endpoints/']");
  await open(submit("/test"));
  await told("The test");
  await open(link("/change"));
  await pick(field("/enabled"), "No");
  await open(submit("/change"));
  await told("The endpoint is changed");
  await open(link("/rotate-secret"));
  await open(submit("/rotate-secret"));
  await told("It is shown only once");
  await open("main a.button[href*='/endpoints/']");
  await open(link("/remove"));
  await open(submit("/remove"));
  await told("The endpoint is removed");

  await unaccepted(base, site, key, name);
  await part("/deliveries");
  await pick(field("status"), "Failed");
  await open(submit("/deliveries"));
  site.mended = true;
  await open("tbody a[href*='/deliveries/']");
  await open(submit("/retry"));
  await told("accepted");
  await open(link("/deliveries"));
  await open("main a[href*='/deliveries/recover']");
  await open(submit("/recover"));
  await told("What would be sent");
  await open("form:has([name=once])[action$='/recover'] button");
  await told("being sent again");
  site.mended = false;

  await part("/keys");
  await open(link("/keys/new"));
  await fill(field("/name"), name);
  await tick(box("/scopes", "bookings:read"));
  await time(field("/expiresAt"));
  await open(submit("/keys/new"));
  await told("It is shown only once");
  await open(link("/keys"));
  await open(`[aria-label="Replace ${name}"]`);
  await pick(field("/overlapSeconds"), "an hour");
  await open(submit("/rotate"));
  await told("It replaces the old key");
  await open(link("/keys"));
  await open(`[aria-label="Revoke ${name}"]`);
  await open(submit("/revoke"));
  await told("The key is revoked");
  await open(link("/people/new"));
  await fill(field("/person"), name);
  await open(submit("/people/new"));
  await told("It is shown only once");
  await open(link("/keys"));
  await open("main form[action$='/end'] button");
  await told("The sign-in is ended");
  await part("/audit");
  await told("Audit");
}

// ---- What the operator's people do

// Signs in with the key, does everything once for the service and for a partner, signs in by a link, and signs out.
export async function operatorsTasks(hand, console, operatorKey, base, site) {
  const { page, open, fill, pick } = hand;
  const told = (words) => said(page, words);
  const part = (path) => open(`nav[aria-label="Console"] a[href$="${path}"]`);
  const copied = () => page.evaluate("document.querySelector('[data-copy]').textContent");
  const name = `Task ${Math.random()}`;
  await page.call("Network.clearBrowserCookies");
  await page.go(console);
  await fill(field("operatorKey"), operatorKey);
  await open(submit("/sign-in"));
  await told("Overview");

  const { partnerId } = await registered(base, name);
  await part("/partners");
  await fill(field("search"), name);
  await open(submit("/partners"));
  await told("Waits for approval");
  await open(link(partnerId));
  await open(link("/approve"));
  await open(submit("/approve"));
  await told("They are shown only once");
  const key = await copied();
  await open("main a.button");
  await open(link("/edit"));
  await fill(field("/website"), "https://task.example");
  await open(submit("/edit"));
  await told("The partner is changed");
  await told("https://task.example");
  await open(link("/quota"));
  await fill(field("/bookings"), "4321");
  await open(`form:has(${field("/bookings")}) button`);
  await told("The quota is changed");
  await told("4,321");
  await open(link("/suspend"));
  await open(submit("/suspend"));
  await told("The partner is suspended");
  await open(submit("/reinstate"));
  await told("The partner is reinstated");
  await partnersTasks(hand, "Partner", base, site, key);

  await unaccepted(base, site, key, name);
  await part("/deliveries");
  await pick(field("status"), "Failed");
  await open(submit("/deliveries"));
  await told(name);
  site.mended = true;
  await open(`tbody a[href*="${partnerId}/deliveries/"]`);
  await open(submit("/retry"));
  await told("accepted");
  site.mended = false;
  await part("/system");
  await told("Settings of this node");
  await part("/audit");
  await pick(field("action"), "Suspend partner");
  await open(submit("/audit"));
  await told("Suspend partner");

  await part("/people");
  await open(link("/people/new"));
  await fill(field("/person"), "Somebody else");
  await open(submit("/people/new"));
  await told("It is shown only once");
  await open(link("/people"));
  await open("main form[action$='/end'] button");
  await told("The sign-in is ended");
  await open(link("/people/new"));
  await fill(field("/person"), name);
  await open(submit("/people/new"));
  const address = await copied();
  await page.call("Network.clearBrowserCookies");
  await page.go(address);
  await open("main button");
  await told("Overview");
  await part("/people");
  await told(name);
  // Below the person and the link that was ended, whoever signed in with the key.
  await open("tbody tr:nth-child(3) form[action$='/end'] button");
  await told("The sign-in is ended");
  await open(submit("/sign-out"));
  await told("Sign in as the operator");
  sentAll(page, console, OPERATORS_FORMS);
}
