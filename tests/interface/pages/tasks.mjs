// Every task of the console. A hand is how somebody does it: with a mouse while no script runs, or by keyboard alone.
import assert from "node:assert/strict";

import { choose, click, follow, press, seenFocus, tabTo, type, write } from "./person.mjs";
import { ask, booked } from "./service.mjs";

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

// Signs in, does everything once, and signs out. What is done away with is made for it.
export async function everyTask({ page, open, fill, pick, tick, time }, base, site, key) {
  const call = async (path, body) => (await ask(base, key, path, body)).json();
  const told = (words) => said(page, words);
  const part = (path) => open(`nav a[href$="${path}"]`);
  const [name] = [`Task ${Math.random()}`];
  await page.call("Network.clearBrowserCookies");
  await page.go(`${base}/console`);
  await fill(field("apiKey"), key);
  await open(submit("/sign-in"));
  await told("Overview");

  const id = await booked(base, key, name);
  await part("/bookings");
  await fill(field("search"), name);
  await open(submit("/bookings"));
  await open(link(id));
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
  await told("another date now");
  await told("4 Jul 2031, 23:00 UTC");
  await open(link("/share"));
  await fill(field("/note"), name);
  await open(submit("/share"));
  await told("It is shown only now");
  await open(link(id));
  await open("main a[href*='/shares/']");
  await open("main form button");
  await told("The link is revoked");
  await open(link("/cancel"));
  await pick(field("/canceledBy"), "Organizer");
  await pick(field("/reason"), "Changed plans");
  await open(submit("/cancel#result"));
  await told("This cannot be undone");
  await open("form[method=post][action$='/cancel'] button");
  await told("The booking is canceled");

  const review = await booked(base, key, name);
  await call(`/v1/bookings/${review}/cancel`, { canceledBy: "organizer", reason: "force_majeure" });
  await part("/reviews");
  await open(link(`${review}/decide`));
  await fill(field("/refund"), "300");
  await fill(field("/decidedBy"), "Ann");
  await fill(field("/rationale"), "Both sides were heard.");
  await open(submit("/decide"));
  await told("Decided.");

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

  await part("/endpoints");
  await open(link("/endpoints/new"));
  await fill(field("/url"), `${site.origin}/${encodeURIComponent(name)}`);
  await tick(box("/ownSecret", "true"));
  await open(submit("/endpoints/new"));
  await told("It is shown only now");
  await open("main a.button[href*='/endpoints/']");
  await open(submit("/test"));
  await told("The test");
  await open(link("/change"));
  await pick(field("/enabled"), "No");
  await open(submit("/change"));
  await told("The endpoint is changed");
  await open(link("/rotate-secret"));
  await open(submit("/rotate-secret"));
  await told("It is shown only now");
  await open("main a.button[href*='/endpoints/']");
  await open(link("/remove"));
  await open(submit("/remove"));
  await told("The endpoint is removed");

  await part("/deliveries");
  await pick(field("status"), "Failed");
  await open(submit("/deliveries"));
  site.mended = true;
  await open("tbody a[href*='/deliveries/']");
  await open(submit("/retry"));
  await told("accepted");
  await open(link("/deliveries"));
  await open(link("/deliveries/recover"));
  await open(submit("/recover"));
  await told("What would be sent");
  await open("form:has([name=once])[action$='/recover'] button");
  await told("are being sent again");
  site.mended = false;

  await part("/keys");
  await open(link("/keys/new"));
  await fill(field("/name"), name);
  await tick(box("/scopes", "bookings:read"));
  await time(field("/expiresAt"));
  await open(submit("/keys/new"));
  await told("It is shown only now");
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
  await told("It is shown only now");
  await open(link("/keys"));
  await open("main form[action$='/end'] button");
  await told("The sign-in is ended");
  await part("/audit");
  await told("Audit");
  await open(submit("/sign-out"));
  await told("Sign in to Bookguard");
}
