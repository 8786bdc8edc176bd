// Opens the server's pages in a browser and does on them what people do. Nothing may leave for another host, nothing may
// break the policy or complain; that these are noticed is shown first, on pages that do them.
import assert from "node:assert/strict";
import { request } from "node:http";

import { complaints, inBrowser, outside, serve } from "./watched.mjs";

const { BASE, KEY, PARTNER } = process.env;
const OPERATION = "createBooking";
const READ = "getPartner";

const document_ = await (await fetch(`${BASE}/openapi.json`)).json();
const operations = Object.entries(document_.paths).flatMap(([path, item]) =>
  Object.entries(item)
    .filter(([, operation]) => operation.operationId)
    .map(([method, operation]) => ({ path, method, id: operation.operationId, tag: operation.tags[0] })),
);
assert(operations.length >= 40, `openapi.json has only ${operations.length} operations`);

async function provesThatFaultsAreNoticed() {
  const pages = {
    "/outside": `<img src="http://outside.example/pixel.png">`,
    "/inline": `<script>document.title = "ran"</script>`,
    "/style": `<p style="color: red">red</p>`,
    "/missing": `<link rel="stylesheet" href="/nothing.css">`,
    "/throws": `<script src="/throw.js"></script>`,
    "/good": `<p>good</p>`,
  };
  const files = { "/throw.js": ["text/javascript", "throw new Error('planted')"], "/favicon.ico": ["image/svg+xml", "<svg/>"] };
  const site = await serve((asked, answer) => {
    const policy = asked.url === "/outside" ? "img-src *" : "default-src 'self'";
    const [type, body] = pages[asked.url] ? ["text/html", `<!doctype html><title>planted</title>${pages[asked.url]}`] : (files[asked.url] ?? []);
    answer.writeHead(body ? 200 : 404, { "content-type": type ?? "text/plain", "content-security-policy": policy });
    answer.end(body ?? "");
  });
  const asked = await inBrowser("planted", async (browser) => {
    for (const [path, mark] of [
      ["/outside", "outside: http://outside.example/pixel.png"],
      ["/inline", "policy: "],
      ["/style", "policy: "],
      ["/missing", "log: "],
      ["/throws", "planted"],
    ]) {
      const page = await browser.open(site.origin + path);
      const found = () => complaints(page, [site.origin]).some((complaint) => complaint.includes(mark));
      for (let look = 0; look < 100 && !found(); look++) {
        await page.evaluate("new Promise((resolve) => setTimeout(resolve, 50))");
      }
      assert(found(), `${path} was not noticed: ${complaints(page, [site.origin])}`);
    }
    const good = await browser.open(`${site.origin}/good`);
    assert.deepEqual(complaints(good, [site.origin]), []);
  });
  site.close();
  assert.deepEqual(outside(asked, [site.origin]), ["http://outside.example/pixel.png"], "the network log lacks the planted request");
}

async function start(browser) {
  const page = await browser.open(`${BASE}/`);
  assert.equal(await page.evaluate("document.title"), "Bookguard");
  const links = await page.evaluate("[...document.links].map((link) => link.href)");
  for (const path of ["/docs", "/openapi.json", "/llms.txt", "/.well-known/mcp.json", "/v1/health"]) {
    assert(links.includes(BASE + path), `the start page does not lead to ${path}: ${links}`);
  }
  // The style sheet is there: without it the text would run from edge to edge.
  assert.equal(await page.evaluate("getComputedStyle(document.querySelector('main')).maxWidth.endsWith('px')"), true);
  assert.equal(await page.evaluate("document.scripts.length"), 0, "the start page needs no script");
  const colors = new Set();
  for (const value of ["light", "dark"]) {
    await page.call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
    colors.add(await page.evaluate("getComputedStyle(document.body).color"));
  }
  assert.equal(colors.size, 2, "the start page is the same in the dark");
  return page;
}

const opened = (id) => `document.querySelector('.opblock.is-open[id$="-${id}"] .opblock-body')`;

async function reference(browser) {
  const page = await browser.open(`${BASE}/docs`);
  await page.until(`document.querySelectorAll(".opblock").length >= ${operations.length}`, "every operation is shown");
  for (const { id, path } of operations) {
    const shown = await page.evaluate(`document.querySelector('.opblock[id$="-${id}"]')?.innerText ?? ""`);
    // The path has marks at which it may break.
    assert(shown.replaceAll("\u200b", "").includes(path), `${id} is shown as ${shown}`);
  }
  await page.evaluate(`document.querySelector('.opblock[id$="-${OPERATION}"] .opblock-summary-control').click()`);
  await page.until(`${opened(OPERATION)}?.innerText.includes("bookingValue")`, `${OPERATION} opens, with the fields of its body`);
  await page.until(`${opened(OPERATION)}?.innerText.includes("Idempotency-Key")`, `${OPERATION} opens, with its parameters`);
  return page;
}

async function deepLink(browser) {
  const { tag } = operations.find(({ id }) => id === OPERATION);
  const page = await browser.open(`${BASE}/docs#/${encodeURIComponent(tag)}/${OPERATION}`);
  await page.until(`${opened(OPERATION)}?.innerText.includes("bookingValue")`, "a link into the reference opens its operation");
  return page;
}

const type = (selector, text) => `(() => {
  const field = document.querySelector('${selector}');
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(field, ${JSON.stringify(text)});
  field.dispatchEvent(new Event("input", { bubbles: true }));
})()`;
const click = (selector) => `document.querySelector('${selector}').click()`;

async function execute(page, status) {
  const block = `.opblock[id$="-${READ}"]`;
  if (!(await page.evaluate(`Boolean(${opened(READ)})`))) {
    await page.until(`document.querySelector('${block} .opblock-summary-control')`, `${READ} is shown`);
    await page.evaluate(click(`${block} .opblock-summary-control`));
    await page.until(`document.querySelector('${block} .try-out__btn')`, `${READ} can be tried`);
    await page.evaluate(click(`${block} .try-out__btn`));
  }
  await page.until(`document.querySelector('${block} .execute')`, `${READ} can be sent`);
  await page.evaluate(click(`${block} .execute`));
  const shown = `document.querySelector('${block} .live-responses-table')?.innerText ?? ""`;
  await page.until(`(${shown}).includes("${status}")`, `${READ} answers ${status}`);
  return page.evaluate(shown);
}

// A key typed into the page works, and is not kept.
async function tryOut(browser, base) {
  const page = await browser.open(`${base}/docs`);
  await page.until(`document.querySelector(".auth-wrapper .authorize")`, "a key can be entered");
  await page.evaluate(click(".auth-wrapper .authorize"));
  await page.until(`document.querySelector(".auth-container input")`, "there is a field for the key");
  await page.evaluate(type(".auth-container input", KEY));
  await page.evaluate(click(".auth-btn-wrapper .authorize"));
  await page.until(`document.querySelector(".auth-btn-wrapper .btn-done")`, "the key is taken");
  await page.evaluate(click(".auth-btn-wrapper .btn-done"));
  const shown = await execute(page, 200);
  assert(shown.includes(PARTNER), `${READ} shows ${shown}`);
  assert(page.requests.includes(`${base}/v1/partners/me`), `asked were ${page.requests}`);
  const kept = "[localStorage.length, sessionStorage.length, document.cookie.length]";
  assert.deepEqual(await page.evaluate(kept), [0, 0, 0], "the key may have been kept");
  assert.deepEqual(complaints(page, [new URL(base).origin]), []);
  return page;
}

async function forgotten(page) {
  await page.go("about:blank");
  await page.go(`${BASE}/docs`);
  await execute(page, 401);
  // The browser notes an answer 401 as an error of the page; that is the one fault there is to be.
  assert(page.faults.every((fault) => fault.includes("401")), page.faults.join("\n"));
}

// Behind a proxy that puts a path before everything, without which the server would be asked for nothing. What is wrong
// behind it is said on the page.
async function behindPath(browser) {
  const { hostname, port } = new URL(BASE);
  const prefix = "/some/path";
  let broken = false;
  const proxy = await serve((asked, answer) => {
    if (!asked.url.startsWith(prefix)) {
      answer.writeHead(404).end();
      return;
    }
    const path = asked.url.slice(prefix.length);
    if (broken && path === "/openapi.json") {
      answer.writeHead(502).end();
      return;
    }
    const onward = request({ hostname, port, path, method: asked.method, headers: asked.headers }, (reply) => {
      answer.writeHead(reply.statusCode, reply.headers);
      reply.pipe(answer);
    });
    asked.pipe(onward);
  });
  await tryOut(browser, proxy.origin + prefix);
  const page = await browser.open(`${proxy.origin}${prefix}/`);
  assert.deepEqual(complaints(page, [proxy.origin]), []);
  const links = await page.evaluate("[...document.links].map((link) => link.href)");
  assert(links.includes(`${proxy.origin}${prefix}/docs`), `links are ${links}`);
  broken = true;
  const without = await browser.open(`${proxy.origin}${prefix}/docs`);
  await without.until(`document.body.innerText.includes("openapi.json answers 502")`, "the page says what it lacks");
  proxy.close();
  return proxy.origin;
}

await provesThatFaultsAreNoticed();
const origins = [BASE];
const asked = await inBrowser("browsed", async (browser) => {
  const looks = [start, reference, deepLink];
  for (const path of ["/llms.txt", "/llms-full.txt", "/openapi.json", "/.well-known/mcp.json", "/v1/health"]) {
    looks.push((browser) => browser.open(BASE + path));
  }
  for (const look of looks) {
    const page = await look(browser);
    assert.deepEqual(complaints(page, [BASE]), [], await page.evaluate("location.href"));
  }
  await forgotten(await tryOut(browser, BASE));
  origins.push(await behindPath(browser));
});
assert(asked.length > 20, `the network log holds ${asked}`);
assert.deepEqual(outside(asked, origins), [], "requests to other hosts");
console.log(`pages: ${operations.length} operations shown, ${asked.length} requests, none to another host`);
