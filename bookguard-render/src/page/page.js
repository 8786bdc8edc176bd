// Checks the packet that this page holds, offline, and shows the result. verify.js stands before this script.
(function () {
  "use strict";
  const entries = (count) => (Number(count) === 1 ? "1 entry" : `${count} entries`);
  const part = (id) => document.getElementById(id);
  const verdict = part("verdict");
  const bytes = Uint8Array.from(atob(part("packet").textContent), (character) => character.charCodeAt(0));

  const line = (text, kind) => {
    const p = document.createElement("p");
    p.textContent = text;
    if (kind) p.className = kind;
    return p;
  };
  const show = (state, result, ...lines) => {
    verdict.dataset.state = state;
    verdict.replaceChildren(line(result, "result"), ...lines.map((text) => line(text)));
  };

  // The first place in the packet whose words the page changed or lacks. Each part of the page that is from the packet names its
  // place there. This notices a translation or a slip; whoever forges a page can change this script, too.
  function altered(packet) {
    const said = (pointer) => pointer.split("/").slice(1).reduce((value, name) => value?.[name], packet);
    const parts = [...document.querySelectorAll("[data-from]")];
    const wrong = parts.find((element) => element.textContent !== said(element.dataset.from));
    if (wrong) return wrong.dataset.from;
    const shown = new Set(parts.map((element) => element.dataset.from));
    const { story, timeline } = packet.summary;
    const missing = [
      "/summary/headline",
      ...story.map((_, at) => `/summary/story/${at}`),
      ...timeline.flatMap((_, at) => [`/summary/timeline/${at}/when`, `/summary/timeline/${at}/text`]),
      ...(packet.termsDisclosures ?? []).map((_, at) => `/termsDisclosures/${at}/text`),
    ].find((pointer) => !shown.has(pointer));
    if (missing) return missing;
    // A part of a sentence ends where a word of it ends, or the sentence.
    const isWithin = ({ textContent, dataset }) =>
      (said(dataset.within) ?? "").split(` ${textContent}`).slice(1).some((rest) => /^[.,]?( |$)/.test(rest));
    return [...document.querySelectorAll("[data-within]")].find((element) => !isWithin(element))?.dataset.within;
  }

  function list(checks) {
    const details = document.createElement("details");
    const items = checks.map(({ name, place, passed, detail }) => {
      const item = document.createElement("li");
      const mark = document.createElement("b");
      mark.textContent = passed ? "Passed: " : "Failed: ";
      mark.className = passed ? "yes" : "no";
      item.append(mark, `${name}. ${detail}${place && ` (${place})`}`);
      return item;
    });
    const all = document.createElement("ul");
    all.append(...items);
    const title = document.createElement("summary");
    const failed = checks.filter(({ passed }) => !passed).length;
    title.textContent = failed ? `${failed} of ${checks.length} checks failed` : `All ${checks.length} checks, one by one`;
    details.className = "checks";
    details.open = failed > 0;
    details.append(title, all);
    return details;
  }

  async function check() {
    if (!(await canVerify())) {
      return show(
        "unable",
        "Not checked: this browser cannot check the signature.",
        "It takes Chrome or Edge 137, Firefox 129 or Safari 17, and a page opened from a file or over https. Save this page and open it there, " +
          "or check the packet in one of the three ways below. Until then, nothing here is proven.",
      );
    }
    const report = await verifyPacket(bytes, part("vkey").textContent);
    const different = report.verified && altered(JSON.parse(new TextDecoder().decode(bytes)));
    const otherKey = report.verified && part("fingerprint").textContent.replace(/\s/g, "") !== report.fingerprint;
    if (!report.verified) {
      show("failed", "NOT verified. Do not rely on this page.", "The packet in this page is not what the ledger key signed and the ledger holds.");
    } else if (different || otherKey) {
      show(
        "failed",
        "NOT verified. This page does not show what its packet says.",
        otherKey
          ? "The fingerprint shown below is not that of the key the packet was checked with."
          : `The packet inside is genuine, but the text at ${different} was changed or is missing, perhaps because of a translation. Open the original page, or check the packet itself.`,
      );
    } else {
      show(
        "verified",
        "Verified: the packet in this page.",
        `It was signed by the key with the fingerprint below, and the ledger ${report.ledger.origin} held its ` +
          `${entries(report.entries)} when it had ${entries(report.ledger.treeSize)}. Nothing in the packet was changed since it was made. Your browser checked that, without asking anybody. ` +
          "It holds if the key is the service's own: compare the fingerprint with what the service publishes.",
        "The words around the packet are only as good as the place you got this file from. The headline, account, timeline, terms, names and ids were compared with " +
          "the packet. That notices a translation or a slip, but a forged page could say the same. In doubt, drop this file at /verify of the service, which shows " +
          "what the packet says.",
      );
    }
    verdict.append(list(report.checks), line(report.notChecked));
  }

  // Paper has nothing to click.
  addEventListener("beforeprint", () => document.querySelectorAll("details.former").forEach((part) => (part.open = true)));
  part("download").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([bytes], { type: "application/json" }));
    link.download = "packet.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  });
  part("download").hidden = false;
  check().catch((error) => show("failed", "NOT checked: the check itself failed.", String(error)));
})();
