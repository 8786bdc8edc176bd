// A browser that is watched: every fault of a page, and every request of it to somebody else.
import { mkdir } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";

import { Chromium } from "./chromium.mjs";

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
