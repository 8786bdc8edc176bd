// What makes the console handier where scripts run. Nothing needs it.
"use strict";

// A button beside each value within an element that people copy.
function offerCopies(within) {
  for (const value of within.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "plain";
    const say = (word) => {
      button.textContent = word;
      button.setAttribute("aria-label", word + " " + value.textContent);
    };
    say("Copy");
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(value.textContent);
      say("Copied");
      setTimeout(() => say("Copy"), 2000);
    });
    value.after(" ", button);
  }
}
// Whoever uses the keyboard keeps their place in a part that is shown anew. `renew` returns what is there then.
function keepFocus(part, renew) {
  const places = (within) => [...within.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")];
  const at = places(part).indexOf(document.activeElement);
  places(renew())[at]?.focus({ preventScroll: true });
}
const refreshed = (page) => [...page.querySelectorAll("[data-refreshed]")];
// What a part shows. The field that makes a form count once is another one each time.
const content = (part) => part.innerHTML.replace(/name="once" value="\w+"/g, "");
const shown = refreshed(document).map(content);
offerCopies(document);

// A form that was sent is not sent again by a second click. Its hidden field would make the second one count for nothing.
for (const form of document.forms) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    if (form.method === "post") form.dataset.sent = "1";
  });
}
// A page that comes back from the browser's memory can be sent again.
addEventListener("pageshow", () => {
  for (const form of document.forms) delete form.dataset.sent;
});

// A page that shows what is under way loads itself again until somebody stops it, and only while it is looked at. What did not
// change stays as it is, with whatever was opened or chosen in it.
const watched = document.querySelector("[data-refresh]");
if (watched) {
  let left = 40;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain";
  button.textContent = "Stop refreshing";
  const stop = (isFocused) => {
    left = 0;
    button.remove();
    const way = document.querySelector("[data-refresh]");
    if (way) way.textContent = "Load the page again to see what changed.";
    if (!isFocused) return;
    // Whoever was at the button keeps their place.
    const place = way ?? document.querySelector("main");
    place.tabIndex = -1;
    place.focus({ preventScroll: true });
  };
  const isAtButton = () => document.activeElement === button;
  button.addEventListener("click", () => stop(true));
  const refresh = async () => {
    if (left-- <= 0) return stop(isAtButton());
    if (!document.hidden) {
      let answer, text;
      try {
        answer = await fetch(location.href, { headers: { accept: "text/html" } });
        text = await answer.text();
      } catch {
        // The server may be back at the next turn.
        setTimeout(refresh, 3000);
        return;
      }
      const page = new DOMParser().parseFromString(text, "text/html");
      const fresh = refreshed(page);
      const isFocused = isAtButton();
      if (!answer.ok || fresh.length !== shown.length || left <= 0) return stop(isFocused);
      refreshed(document).forEach((old, place) => {
        const now = content(fresh[place]);
        if (now === shown[place]) return;
        shown[place] = now;
        keepFocus(old, () => {
          old.replaceWith(fresh[place]);
          offerCopies(fresh[place]);
          return fresh[place];
        });
      });
      const way = document.querySelector("[data-refresh]");
      if (!way) return stop(isFocused);
      if (!way.contains(button)) way.append(" ", button);
      if (isFocused) button.focus();
    }
    setTimeout(refresh, 3000);
  };
  watched.append(" ", button);
  setTimeout(refresh, 3000);
}

// A form beside which stands what it means: renewed while somebody types. A check changes nothing.
const live = document.querySelector("form[data-preview]");
if (live) {
  const parts = (page) => [...page.querySelectorAll("[data-live]")];
  let wait, under;
  const renew = async () => {
    under?.abort();
    under = new AbortController();
    const { signal } = under;
    const body = new URLSearchParams(new FormData(live));
    body.set("do", "preview");
    let fresh = [];
    try {
      const answer = await fetch(live.action, { method: "POST", body, signal, headers: { accept: "text/html" } });
      if (answer.ok) fresh = parts(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
      if (signal.aborted) return;
    }
    parts(document).forEach((part, place) => {
      // What is read out stays the same element, so only a change of it is.
      const html = fresh[place]?.innerHTML ?? (place ? part.innerHTML : "This is not up to date. Use the button “Check”.");
      if (part.innerHTML === html) return;
      keepFocus(part, () => {
        part.innerHTML = html;
        return part;
      });
    });
  };
  live.addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(renew, 400);
  });
}
