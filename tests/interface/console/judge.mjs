// Judges pages of a console: what the browser complains of, how much they load, whether they fit on screens of three widths, what
// axe-core finds in the light and in the dark, and whether a screen reader finds what it did. PICTURES=DIR keeps a picture of each,
// for somebody to look at.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { differences, outline } from "./outline.mjs";
import { barriers, complaints } from "../pages/watched.mjs";

const WIDTHS = [320, 768, 1280];
const { LONG, PICTURES } = process.env;
const MOST_REQUESTS = 4;
const MOST_BYTES = 100_000; // html, style sheet, script and icon, as they are sent: nothing is compressed

const assets = new Map();
async function weight(address) {
  if (!assets.has(address)) assets.set(address, (await (await fetch(address)).arrayBuffer()).byteLength);
  return assets.get(address);
}

// Pictures of the whole page as it is shown, named after it.
async function pictures(page, name, width) {
  mkdirSync(PICTURES, { recursive: true });
  for (const value of ["light", "dark"]) {
    await page.call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
    const { data } = await page.call("Page.captureScreenshot", { format: "png", captureBeyondViewport: true });
    writeFileSync(join(PICTURES, `${name.replaceAll(/\W+/g, "-")}-${width}-${value}.png`), Buffer.from(data, "base64"));
  }
}

// Judges pages of these origins. `wrong` collects every fault of every page, so that one run shows them all; `heard` adds what
// differs from the outlines that a file keeps.
export function judging(origins) {
  const wrong = [];
  const outlines = new Map();
  let judged = 0;
  async function judge(page, name, status = 200) {
    const found = [];
    // The browser notes the status of a refusal as an error.
    const noted = (complaint) => status !== 200 && complaint.startsWith("log: Failed to load resource") && complaint.includes(String(status));
    found.push(...complaints(page, origins).filter((complaint) => !noted(complaint)));
    page.faults.length = 0;
    const [html, loaded, files] = await page.evaluate(`[document.documentElement.outerHTML, performance.getEntriesByType("resource").map(({ name }) => name),
      [...document.querySelectorAll("link, script")].map((element) => element.href ?? element.src)]`);
    const requests = 1 + new Set([...loaded, ...files]).size;
    if (requests > MOST_REQUESTS) found.push(`${requests} requests`);
    let bytes = Buffer.byteLength(html);
    for (const file of files) bytes += await weight(file);
    if (bytes > MOST_BYTES) found.push(`${bytes} bytes`);
    if ([400, 401, 409].includes(status)) await page.until("document.activeElement.getAttribute('role') === 'alert'", `${name}: the refusal has the focus`);
    // axe-core takes most of the time. Each page is shown to it at one width, the widths in turn, and with LONG=1 at all.
    const shown = LONG ? WIDTHS : [WIDTHS[judged % WIDTHS.length]];
    for (const width of WIDTHS) {
      await page.call("Emulation.setDeviceMetricsOverride", { width, height: 800, deviceScaleFactor: 1, mobile: false });
      const needed = await page.evaluate("document.documentElement.scrollWidth");
      if (needed > width) found.push(`${needed} px wide on a screen of ${width} px`);
      // A table whose rows are blocks there has nothing to scroll to.
      const cut = width < 800 ? await page.evaluate("[...document.querySelectorAll('.list')].filter((list) => list.scrollWidth > list.clientWidth).map((list) => list.getAttribute('aria-label'))") : [];
      found.push(...cut.map((list) => `"${list}" is cut off on a screen of ${width} px`));
      if (shown.includes(width)) found.push(...(await barriers(page)).map((barrier) => `${width} px, ${barrier}`));
      if (PICTURES) await pictures(page, name, width);
    }
    outlines.set(name, await outline(page));
    wrong.push(...found.map((fault) => `${name}: ${fault}`));
    judged++;
  }
  const heard = (file) => wrong.push(...differences(outlines, file));
  return { judge, wrong, heard, count: () => judged };
}
