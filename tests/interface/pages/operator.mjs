// The operator's console as people use it, on a server with sample data: every page in the light and in the dark, on a small
// screen, a tablet and a large one; and its tasks without a script.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

import { judging } from "./judge.mjs";
import { follow, type } from "./person.mjs";
import { inBrowser, outside } from "./watched.mjs";

const { BOOKGUARD } = process.env;
const submit = (path) => `form[action$="${path}"] button`;
const link = (path) => `main a[href$="${path}"]`;
const field = (name) => `[name="${name}"]`;

// Starts it, and reads where its operator interface is and the link that signs in there.
async function demo() {
  const server = spawn(BOOKGUARD, ["serve", "--demo", "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });
  let [base, address] = [];
  for await (const line of createInterface({ input: server.stdout })) {
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
  return { base, address, stop };
}

const { base, address, stop } = await demo();
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
  await page.go(`${CONSOLE}/partners?search=Acme`);
  await follow(page, "tbody a");
  await judge(page, "partner");
  const partner = await page.evaluate("location.pathname.replace(/^.console/, '')");
  for (const [name, path] of Object.entries({ edit: "/edit", quota: "/quota", suspend: "/suspend" })) await at(name, partner + path);
  await page.go(`${CONSOLE}${partner}/edit`);
  await sent("edit refused", "/edit", { "/contactEmail": "nobody" }, 400);
  await page.go(`${CONSOLE}${partner}/quota`);
  await sent("quota refused", "/quota", { "/bookings": "many" }, 400);
  for (const path of ["/overview", "/bookings", "/deliveries", "/endpoints", "/keys", "/people/new", "/audit"]) await at(`for a partner: ${path}`, partner + path);
  await page.go(`${CONSOLE}${partner}/bookings`);
  await follow(page, "tbody a");
  await judge(page, "for a partner: booking");
}

async function withoutScript(page) {
  await page.call("Emulation.setScriptExecutionDisabled", { value: true });
  const says = async (words) => {
    const text = await page.evaluate("document.querySelector('main').innerText");
    assert(text.includes(words), `${await page.evaluate("location.pathname")} lacks "${words}":\n${text}`);
  };
  await page.go(CONSOLE);
  await says("Waits for approval");
  await follow(page, "main .todo a[href*='/partners/']");
  await follow(page, submit("/approve"));
  await says("They are shown only now");
  await follow(page, "main a.button");
  await follow(page, link("/suspend"));
  await follow(page, submit("/suspend"));
  await says("The partner is suspended");
  await follow(page, submit("/reinstate"));
  await says("The partner is reinstated");
  await follow(page, "header form button");
  await says("Sign in as the operator");
}

try {
  const asked = await inBrowser("operator", async (browser) => {
    const page = await browser.open(CONSOLE);
    await page.call("Page.bringToFront");
    await everyPage(page);
    await withoutScript(page);
  });
  assert.deepEqual(wrong, []);
  assert.deepEqual(outside(asked, [base]), [], "requests to other hosts");
} finally {
  await stop();
}
console.log(`operator: ${count()} pages judged`);
