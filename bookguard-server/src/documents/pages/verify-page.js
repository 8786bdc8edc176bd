// Checks the file that the visitor chooses or drops, in the browser. Only the service's key is fetched, from this service.
(function () {
  "use strict";
  // More than any evidence page: the packet, of 4 MiB at most, is in it twice, once encoded and once in words.
  const FILE_MIB = 32;
  const part = (id) => document.getElementById(id);
  const verdict = part("verdict");
  let own = null;
  let newest = 0;

  const element = (name, text, kind) => {
    const made = document.createElement(name);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  function show(state, result, ...parts) {
    verdict.dataset.state = state;
    verdict.hidden = false;
    verdict.replaceChildren(element("p", result, "result"), ...parts);
  }
  const grouped = (hex) => hex.replace(/(.{4})(?=.)/g, "$1 ");

  async function fetchKey() {
    try {
      const answer = await fetch("v1/ledger/key");
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      own = (await answer.text()).trim();
      if (!crypto.subtle) return void (part("ownkey").textContent = "whose fingerprint a browser computes over https only");
      part("ownkey").replaceChildren("with the fingerprint ", element("code", grouped(await fingerprintOf(own))));
    } catch (error) {
      part("ownkey").textContent = `which cannot be fetched (${error.message})`;
      part("other").checked = true;
    }
  }

  const ZIP = "PK\u0003\u0004";
  // What is made of a packet and holds none that this page can take out: how it begins, what it is, and how to get the packet.
  const OTHERS = [
    ["%PDF", "a PDF", "Save the packet.json that is attached to it, or get that from whoever made the PDF: a PDF for a bank has none. Then drop that here."],
    [ZIP, "a ZIP archive", "Take packet.json out of it, or get that from whoever made the archive. Then drop that here."],
  ];

  /** The packet.json in a ZIP archive whose files are not compressed, as the service makes it; nothing if there is none. */
  async function archived(file) {
    const view = async (from, size) => new DataView(await file.slice(from, from + size).arrayBuffer());
    const end = await view(Math.max(file.size - 22, 0), 22);
    if (end.byteLength < 22 || end.getUint32(0, true) !== 0x06054b50) return undefined;
    const directory = await view(end.getUint32(16, true), end.getUint32(12, true));
    for (let at = 0; at + 46 <= directory.byteLength; ) {
      const [name, extra, comment] = [28, 30, 32].map((field) => directory.getUint16(at + field, true));
      const [size, from] = [24, 42].map((field) => directory.getUint32(at + field, true));
      const named = new TextDecoder().decode(directory.buffer.slice(at + 46, at + 46 + name));
      if (named === "packet.json" && directory.getUint16(at + 10, true) === 0) {
        const header = await view(from, 30);
        if (header.byteLength < 30) return undefined;
        const start = from + 30 + header.getUint16(26, true) + header.getUint16(28, true);
        return file.slice(start, start + size);
      }
      at += 46 + name + extra + comment;
    }
    return undefined;
  }

  /** The packet in a file: the file itself, or what an evidence page holds. The page is read as text, so nothing of it runs or styles. */
  async function packetOf(file) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    const text = new TextDecoder().decode(bytes);
    if (!/^\s*<!doctype html/i.test(text)) return { bytes, isPage: false };
    const held = /<script\b[^>]*\bid="packet"[^>]*>([A-Za-z0-9+/=\s]*)<\/script>/.exec(text);
    return { bytes: Uint8Array.from(atob(held?.[1] ?? ""), (character) => character.charCodeAt(0)), isPage: true };
  }

  function list(checks) {
    const items = checks.map(({ name, place, passed, detail }) =>
      element("li", `${passed ? "Passed" : "Failed"}: ${name}. ${detail}${place && ` (${place})`}`),
    );
    const all = element("ul", "", "checks");
    all.append(...items);
    const details = document.createElement("details");
    const failed = checks.filter(({ passed }) => !passed).length;
    details.open = failed > 0;
    details.append(element("summary", failed ? `${failed} of ${checks.length} checks failed` : `All ${checks.length} checks`), all);
    return details;
  }

  /** What is to be shown of a file once it is checked. */
  async function judged(file) {
    const begin = (await file.slice(0, 1024).text()).trimStart();
    const inside = begin.startsWith(ZIP) ? await archived(file) : undefined;
    const other = inside ? undefined : OTHERS.find(([start]) => begin.startsWith(start));
    if (other) {
      const [, what, way] = other;
      return () => show("unable", `Not checked: ${file.name} is ${what} and not a packet.`, element("p", way));
    }
    const read = inside ?? file;
    if (read.size > FILE_MIB * 1024 * 1024) {
      return () => show("failed", `NOT checked: ${file.name} is larger than any packet.`,
        element("p", `A packet is at most 4 MiB, and an evidence page at most ${FILE_MIB} MiB.`));
    }
    if (!(await canVerify())) {
      return () => show("unable", "Not checked: this browser cannot check the signature.",
        element("p", "It takes Chrome or Edge 137, Firefox 129 or Safari 17, and this page over https."));
    }
    const key = part("own").checked ? own : part("key").value;
    if (!key) {
      return () => show("unable", "Not checked: no key was given.", element("p", "Paste the ledger’s key, or choose the key of this service."));
    }
    const { bytes, isPage } = await packetOf(read);
    const report = await verifyPacket(bytes, key);
    if (!report.verified) {
      return () => show("failed", `NOT verified: ${file.name}. Do not rely on it.`, list(report.checks));
    }
    const said = `Booking ${report.bookingId}, packet of ${report.createdAt}. It is signed by the key with the fingerprint ${grouped(report.fingerprint)}.`;
    // Any page or archive can hold a genuine packet and say something else.
    const [what, beside] = isPage || inside
      ? [`the packet in ${file.name}`, [element("p", "What the file itself shows was not checked. Rely on what the packet says, below.")]]
      : [file.name, []];
    const { headline, story } = JSON.parse(new TextDecoder().decode(bytes)).summary;
    return () => {
      show("verified", `Verified: ${what}`, ...beside, element("p", said), list(report.checks), element("p", report.notChecked));
      part("headline").textContent = headline;
      part("story").replaceChildren(...story.map((text) => element("p", text)));
      part("content").hidden = false;
    };
  }

  async function check(file) {
    const turn = ++newest;
    part("content").hidden = true;
    show("checking", `Checking ${file.name} …`);
    const unread = (error) => () => show("failed", "NOT checked: the file cannot be read.", element("p", String(error)));
    const result = await judged(file).catch(unread);
    // A later choice has its own result.
    if (turn === newest) result();
  }

  const file = part("file");
  const again = () => file.files[0] && check(file.files[0]);
  file.addEventListener("change", again);
  for (const id of ["own", "other", "key"]) part(id).addEventListener("change", again);
  part("key").addEventListener("input", () => (part("other").checked = true));
  part("form").addEventListener("submit", (event) => event.preventDefault());
  const drop = part("drop");
  for (const [kind, over] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", over);
      if (kind !== "drop" || !event.dataTransfer.files.length) return;
      file.files = event.dataTransfer.files;
      again();
    });
  }
  fetchKey();
})();
