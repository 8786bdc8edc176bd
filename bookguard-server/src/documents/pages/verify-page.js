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
    if (file.size > FILE_MIB * 1024 * 1024) {
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
    const { bytes, isPage } = await packetOf(file);
    const report = await verifyPacket(bytes, key);
    if (!report.verified) {
      return () => show("failed", `NOT verified: ${file.name}. Do not rely on it.`, list(report.checks));
    }
    const said = `Booking ${report.bookingId}, packet of ${report.createdAt}. It is signed by the key with the fingerprint ${grouped(report.fingerprint)}.`;
    // Any page can hold a genuine packet and say something else.
    const [what, beside] = isPage
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
