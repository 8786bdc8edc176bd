// What a screen reader finds on a page, as lines that can be compared: each landmark, heading, link, field, table and message with
// its role, name and state, by the rules of axe-core, whose version is pinned as the browser's is not.
import { existsSync, readFileSync, writeFileSync } from "node:fs";

// axe-core must be in the page.
const OUTLINE = `(() => {
  const { aria, dom, text } = axe.commons;
  const told = /^(alert|banner|button|checkbox|columnheader|combobox|complementary|contentinfo|form|group|heading|img|link|listbox|main|navigation|radio|radiogroup|region|search|searchbox|spinbutton|status|table|term|textbox)$/;
  const lines = [];
  const walk = (element, depth) => {
    // Rows are what happened, and differ from one run to the next.
    if (element.matches("tbody") || !dom.isVisibleToScreenReaders(element)) return;
    const role = element.matches("summary") ? "button" : aria.getRole(element);
    if (!told.test(role ?? "")) return [...element.children].forEach((child) => walk(child, depth));
    const states = [
      role === "heading" && "level " + element.localName.slice(1),
      element.required && "required",
      element.getAttribute("aria-invalid") === "true" && "invalid",
      element.hasAttribute("aria-describedby") && "described",
      element.hasAttribute("aria-current") && "current",
      element.disabled && "disabled",
      element.checked && "checked",
    ].filter(Boolean);
    lines.push(["  ".repeat(depth) + role, text.accessibleText(element), ...states]);
    // What is above every page is told once: at the first page.
    if (role === "banner" && location.pathname !== "/console") return;
    for (const child of element.children) walk(child, depth + 1);
  };
  axe.setup(document);
  try {
    walk(document.body, 0);
  } finally {
    axe.teardown();
  }
  return lines;
})()`;

// Names without what differs from one run to the next: what is copied, ids and numbers.
const kept = (name) =>
  name.replace(/^Copy .*/, "Copy …").replaceAll(/\b([a-z]{3})_[0-9a-f]{32}\b/g, "$1_…").replaceAll(/\d[\d.,:]*/g, "#");

// Equal neighbours are one line.
export async function outline(page) {
  const found = await page.evaluate(OUTLINE);
  const lines = found.map(([role, name, ...states]) => [name ? `${role} ${JSON.stringify(kept(name))}` : role, ...states].join(", "));
  return lines.filter((line, at) => line !== lines[at - 1]);
}

// Compares the outlines of pages with those that a file keeps, and returns what differs. UPDATE=1 writes the file.
export function differences(outlines, file) {
  const text = [...outlines].map(([name, lines]) => `== ${name} ==\n${lines.join("\n")}\n`).join("\n");
  if (process.env.UPDATE) writeFileSync(file, text);
  const before = existsSync(file) ? readFileSync(file, "utf8") : "";
  if (text === before) return [];
  const pages = (whole) => new Map(whole.split(/^== /m).slice(1).map((part) => part.split(" ==\n")));
  const [now, then] = [pages(text), pages(before)];
  const all = new Set([...now.keys(), ...then.keys()]);
  const lines = (part) => (part ?? "").split("\n");
  return [...all].flatMap((name) => {
    const [is, was] = [lines(now.get(name)), lines(then.get(name))];
    const at = is.findIndex((line, place) => line !== was[place]);
    return at < 0 && is.length === was.length ? [] : [`${name}: a screen reader finds ${is[at] ?? "nothing"}, where ${file} has ${was[at] ?? "nothing"} (UPDATE=1 keeps what is found now)`];
  });
}
