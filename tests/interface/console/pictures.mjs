// Takes the pictures of the console for the documents, of a server with sample data (bookguard serve --demo):
//   WORK=$(mktemp -d) TOOLS=. node pictures.mjs LINK OPERATOR_LINK FOLDER
// The links are those that the server printed; each signs in once.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { follow } from "./person.mjs";
import { inBrowser } from "../pages/watched.mjs";

const [link, operatorLink, folder] = process.argv.slice(2);
const [width, height] = [1280, 860];

async function signedIn(browser, link) {
  const page = await browser.open(link);
  await page.call("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
  await page.call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: "light" }] });
  await follow(page, "main form button");
  return page;
}

async function picture(page, name) {
  await page.evaluate("document.activeElement.blur()");
  const { data } = await page.call("Page.captureScreenshot", { format: "png" });
  await writeFile(join(folder, `${name}.png`), Buffer.from(data, "base64"));
}

await mkdir(folder, { recursive: true });
await inBrowser("pictures", async (browser) => {
  const page = await signedIn(browser, link);
  const part = (path) => follow(page, `nav a[href$="${path}"]`);
  await picture(page, "overview");
  await part("/reviews");
  await follow(page, "tbody a");
  await picture(page, "review");
  await part("/bookings");
  const concert = "[...document.querySelectorAll('tbody tr:has(.badge.good) a')].find((link) => link.textContent === 'concert')";
  await page.leads(() => page.evaluate(`${concert}.click()`));
  await picture(page, "booking");
  await part("/deliveries");
  await picture(page, "deliveries");
  await part("/policies");
  await follow(page, "main a[href*='/policies/']");
  await follow(page, "main a[href$='/change']");
  await picture(page, "policy");
  await picture(await signedIn(browser, operatorLink), "operator");
});
