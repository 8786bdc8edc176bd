// Somebody at a page, with a mouse and a keyboard. The browser gets them as it gets real ones, whether scripts run or not.
import assert from "node:assert/strict";

const quoted = JSON.stringify;

// A page that is left because of it may not answer.
const input = (page, kind, what) => page.call(`Input.dispatch${kind}`, what).catch(({ message }) => assert.match(message, /navigated or closed/));

export async function click(page, selector, count = 1) {
  const place = await page.evaluate(`(() => {
    const element = document.querySelector(${quoted(selector)});
    if (!element) return null;
    element.scrollIntoView({ block: "center" });
    const { x, y, width, height } = element.getClientRects()[0];
    const [left, top] = [x + width / 2, y + height / 2];
    const hit = document.elementFromPoint(left, top);
    return { x: left, y: top, is: element.contains(hit) || hit?.contains(element) };
  })()`);
  assert(place?.is, `${selector} cannot be clicked on ${await page.evaluate("location.pathname + document.body.innerText.slice(0, 2000)")}`);
  const { x, y } = place;
  for (let clickCount = 1; clickCount <= count; clickCount++) {
    for (const type of ["mousePressed", "mouseReleased"]) {
      await input(page, "MouseEvent", { type, x, y, button: "left", clickCount });
    }
  }
}

export const follow = (page, selector) => page.leads(() => click(page, selector));

export async function type(page, selector, text) {
  await click(page, selector);
  await input(page, "KeyEvent", { type: "keyDown", key: "a", code: "KeyA", modifiers: 2, commands: ["selectAll"] });
  await page.call("Input.insertText", { text });
  assert.equal(await page.evaluate(`document.querySelector(${quoted(selector)}).value`), text, selector);
}

// Chooses the first word of a list that begins with this text.
export async function choose(page, selector, text) {
  await page.evaluate(`document.querySelector(${quoted(selector)}).focus()`);
  await write(page, text);
  const chosen = await page.evaluate(`document.querySelector(${quoted(selector)}).selectedOptions[0].text`);
  assert(chosen.startsWith(text), `${selector} is "${chosen}"`);
}

const KEYS = { Tab: 9, Enter: 13, " ": 32 };

export async function press(page, key) {
  const text = { Enter: "\r", " ": " " }[key] ?? (key.length === 1 ? key : undefined);
  const windowsVirtualKeyCode = KEYS[key];
  await input(page, "KeyEvent", { type: text ? "keyDown" : "rawKeyDown", key, code: key, text, windowsVirtualKeyCode });
  await input(page, "KeyEvent", { type: "keyUp", key, code: key, windowsVirtualKeyCode });
}

export async function write(page, text) {
  for (const character of text) await press(page, character);
}

// Whether a person sees where the keyboard is, and where that is.
const FOCUS = `(() => {
  const element = document.activeElement;
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  const { left, top, right, bottom } = element.getBoundingClientRect();
  const isMarked = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
  const isInside = right > 0 && bottom > 0 && left < innerWidth && top < innerHeight && right > left && bottom > top;
  return { isSeen: isMarked && isInside, isNowhere: element === document.body, where: element.outerHTML.slice(0, 120) };
})()`;

export async function seenFocus(page) {
  const focus = await page.evaluate(FOCUS);
  assert(focus.isSeen, `nobody sees the focus on ${await page.evaluate("location.pathname")}: ${focus.where}`);
}

// Presses Tab until the focus is on this. After the last element, it is the browser's own for a moment.
export async function tabTo(page, selector) {
  for (let turn = 0; turn < 150; turn++) {
    await press(page, "Tab");
    // In one question, because a page may move the focus between two.
    const [focus, isThere] = await page.evaluate(`[${FOCUS}, document.activeElement.matches(${quoted(selector)})]`);
    if (focus.isNowhere) continue;
    assert(focus.isSeen, `nobody sees the focus on ${await page.evaluate("location.pathname")}: ${focus.where}`);
    if (isThere) return;
  }
  throw new Error(`${selector} cannot be reached with Tab on ${await page.evaluate("location.pathname")}`);
}
