// The operator's console as people use it, on a server with sample data: every page in the light and in the dark, on a small
// screen, a tablet and a large one; and its tasks without a script, and by keyboard alone.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { judging } from "./judge.mjs";
import { follow, type } from "./person.mjs";
import { receiver } from "../pages/service.mjs";
import { field, keyboard, mouse, operatorsTasks, submit } from "./tasks.mjs";
import { complaints, inBrowser, outside } from "../pages/watched.mjs";

const { BOOKGUARD, WORK } = process.env;
const database = join(WORK, "operator.db");

// Starts it, and reads where its interfaces are, the link that signs in to the operator's console, and a key that does.
async function demo() {
  const settings = ["--db", database, "--listen", "127.0.0.1:0", "--registration", "approval"];
  const server = spawn(BOOKGUARD, ["serve", "--demo", ...settings], { stdio: ["ignore", "pipe", "inherit"] });
  let [partners, base, address] = [];
  for await (const line of createInterface({ input: server.stdout })) {
    partners ??= /^listening on (.*)/.exec(line)?.[1];
    base ??= /^operator interface at (.*)/.exec(line)?.[1];
    if (base && line.trim().startsWith(`${base}/console/link/`)) address = line.trim();
    // The last line that is printed.
    if (line.endsWith("/docs")) break;
  }
  assert(address, "the demo prints a link to the operator's console");
  const stop = async () => {
    server.kill();
    await once(server, "exit");
  };
  const made = execFileSync(BOOKGUARD, ["operator-keys", "create", "--name", "Tasks", "--db", database, "--output", "json"]);
  return { partners, base, address, key: JSON.parse(made).operatorKey, stop };
}

const { partners, base, address, key, stop } = await demo();
const site = await receiver();
const { judge, wrong, count } = judging([base]);
const CONSOLE = `${base}/console`;

async function everyPage(page) {
  const at = async (name, path, status) => {
    await page.go(CONSOLE + path);
    await judge(page, name, status);
  };
  const sent = async (name, path, typed, status) => {
    for (const [of, text] of Object.entries(typed)) await type(page, field(of), text);
    await follow(page, submit(path));
    await judge(page, name, status);
  };
  await at("sign-in", "");
  await sent("sign-in refused", "/sign-in", { operatorKey: "bgo_unknown" }, 401);
  await page.go(address);
  await judge(page, "link");
  await follow(page, "main button");
  await judge(page, "overview");
  await at("partners", "/partners");
  await at("partners, none found", "/partners?search=nobody-has-this&status=suspended");
  await at("partners refused", "/partners?status=nonsense", 400);
  await at("error page", "/partners/ptn_00000000000000000000000000000000", 404);
  await at("deliveries", "/deliveries");
  await at("deliveries, none", "/deliveries?status=no_endpoints&type=api_key.expiring");
  await at("system", "/system");
  await at("people", "/people");
  await at("invite", "/people/new");
  await sent("invite refused", "/people/new", { "/person": "\u202e" }, 400);
  await sent("invited", "/people/new", { "/person": "Ann" });
  await at("audit", "/audit");
  await at("audit, none", "/audit?action=setQuota&since=2031-06-20T19:00");
  await at("audit refused", "/audit?since=soon", 400);
  await page.go(`${CONSOLE}/partners?search=Acme`);
  await follow(page, "tbody a");
  await judge(page, "partner");
  const partner = await page.evaluate("location.pathname.replace(/^.console/, '')");
  for (const [name, path] of Object.entries({ edit: "/edit", quota: "/quota", suspend: "/suspend" })) await at(name, partner + path);
  await page.go(`${CONSOLE}/partners?status=pending`);
  await follow(page, "tbody a");
  await follow(page, 'main a[href$="/approve"]');
  await judge(page, "approve");
  await page.go(`${CONSOLE}${partner}/edit`);
  await sent("edit refused", "/edit", { "/contactEmail": "nobody" }, 400);
  await page.go(`${CONSOLE}${partner}/quota`);
  await sent("quota refused", "/quota", { "/bookings": "many" }, 400);
  for (const path of ["/overview", "/bookings", "/deliveries", "/endpoints", "/keys", "/people/new", "/audit"]) await at(`for a partner: ${path}`, partner + path);
  await page.go(`${CONSOLE}${partner}/bookings`);
  await follow(page, "tbody a");
  await judge(page, "for a partner: booking");
}

// The browser notes the status of a form that was refused.
const unexpected = (page) => complaints(page, [base]).filter((complaint) => !/Failed to load resource.* 400 /.test(complaint));

async function withoutScript(browser) {
  const page = await browser.open(CONSOLE);
  await page.call("Page.bringToFront");
  await page.call("Emulation.setScriptExecutionDisabled", { value: true });
  await operatorsTasks(mouse(page), CONSOLE, key, partners, site);
  assert.deepEqual(unexpected(page), []);
}

async function byKeyboard(browser) {
  const page = await browser.open(CONSOLE);
  await page.call("Page.bringToFront");
  await operatorsTasks(keyboard(page), CONSOLE, key, partners, site);
  assert.deepEqual(unexpected(page), []);
}

try {
  const asked = await inBrowser("operator", async (browser) => {
    const page = await browser.open(CONSOLE);
    await page.call("Page.bringToFront");
    await everyPage(page);
    await withoutScript(browser);
    await byKeyboard(browser);
  });
  assert.deepEqual(wrong, []);
  assert.deepEqual(outside(asked, [base]), [], "requests to other hosts");
} finally {
  site.close();
  await stop();
}
console.log(`operator: ${count()} pages judged`);
