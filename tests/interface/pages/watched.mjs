// A browser that is watched: every fault of a page, and every request of it to somebody else.
import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";

import { Chromium } from "./chromium.mjs";

const axe = join(process.env.TOOLS, "pages/node_modules/axe-core/axe.min.js");

export async function serve(answer) {
  const server = createServer(answer);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { origin: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

export async function inBrowser(name, work) {
  const folder = join(process.env.WORK, name);
  await mkdir(folder);
  const browser = await Chromium.start(folder);
  try {
    await work(browser);
    return await browser.close();
  } finally {
    browser.kill();
  }
}

export const outside = (addresses, origins) =>
  addresses.filter((address) => /^(https?|wss?):/.test(address) && !origins.includes(new URL(address).origin));

// Every fault of a page, and every request of it to somebody else.
export function complaints(page, origins) {
  return [...page.faults, ...outside(page.requests, origins).map((address) => `outside: ${address}`)];
}

// What axe-core finds in the light and in the dark, between which only colors differ.
export async function barriers(page) {
  if (!(await page.evaluate("Boolean(window.axe)"))) await page.evaluate(await readFile(axe, "utf8"));
  const all = [];
  for (const [value, rules] of [["light", ""], ["dark", "runOnly: { type: 'rule', values: ['color-contrast', 'link-in-text-block'] }, "]]) {
    await page.call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
    const found = await page.evaluate(`axe.run({ ${rules}resultTypes: ["violations"] }).then(({ violations }) => violations.map(({ id, nodes }) => id + ": " + nodes.map((node) => node.target + " " + node.failureSummary)))`);
    all.push(...found.map((barrier) => `${value}: ${barrier}`));
  }
  return all;
}

export async function accessible(page) {
  assert.deepEqual(await barriers(page), []);
}
