// Chromium without windows (chromium-headless-shell), spoken to by its DevTools protocol: opens pages and notes whatever goes
// wrong on them, and every request. Nothing but this machine can be reached from it; that it tried is in its network log all
// the same.
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

const BOUND_MS = 30_000;
const QUIET = [
  // A click on a page that is loaded and not drawn yet would be lost.
  "--allow-pre-commit-input",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-dev-shm-usage",
  "--remote-debugging-port=0",
  "--no-first-run",
  "--no-default-browser-check",
  "--no-pings",
  "--disable-background-networking",
  "--disable-breakpad",
  "--disable-component-update",
  "--disable-default-apps",
  "--disable-domain-reliability",
  "--disable-extensions",
  "--disable-sync",
  "--metrics-recording-only",
  "--disable-features=OptimizationHints,MediaRouter,Translate,AutofillServerCommunication,InterestFeedContentSuggestions",
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

export class Chromium {
  static async start(folder) {
    const browser = new Chromium();
    browser.log = join(folder, "net-log.json");
    const own = [`--user-data-dir=${join(folder, "profile")}`, `--log-net-log=${browser.log}`, "about:blank"];
    browser.process = spawn("chromium-headless-shell", [...QUIET, ...own], { stdio: ["ignore", "ignore", "pipe"] });
    browser.calls = new Map();
    browser.ended = new Promise((resolve) => browser.process.once("exit", resolve));
    // Nobody answers then, and a promise that nothing settles would end the test without a word.
    browser.process.once("exit", (code, signal) => {
      for (const { reject } of browser.calls.values()) reject(new Error(`Chromium ended: ${signal ?? code}`));
    });
    browser.sessions = new Map();
    browser.next = 1;
    const address = await listening(browser.process);
    browser.socket = new WebSocket(address);
    await new Promise((resolve, reject) => {
      browser.socket.onopen = resolve;
      browser.socket.onerror = () => reject(new Error("Chromium's DevTools cannot be reached"));
    });
    browser.socket.onmessage = (message) => browser.take(JSON.parse(message.data));
    return browser;
  }

  take({ id, result, error, method, params, sessionId }) {
    if (id !== undefined) {
      const { resolve, reject } = this.calls.get(id);
      this.calls.delete(id);
      return error ? reject(new Error(error.message)) : resolve(result);
    }
    this.sessions.get(sessionId)?.(method, params);
  }

  call(method, params = {}, sessionId = undefined) {
    const id = this.next++;
    this.socket.send(JSON.stringify({ id, method, params, sessionId }));
    return new Promise((resolve, reject) => this.calls.set(id, { resolve, reject }));
  }

  async open(address) {
    const { targetId } = await this.call("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.call("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId);
    for (const domain of ["Network", "Page", "Runtime", "Log", "Audits"]) {
      await page.call(`${domain}.enable`);
    }
    await page.go(address);
    return page;
  }

  // Ends in order, because only then the log is whole; every address that pages asked for.
  async close() {
    // It may end before it answers.
    await Promise.race([this.call("Browser.close"), this.ended]);
    if ((await Promise.race([this.ended, pause(BOUND_MS, "late", { ref: false })])) === "late") {
      this.process.kill("SIGKILL");
      throw new Error("Chromium does not end");
    }
    const { constants, events } = JSON.parse(await readFile(this.log, "utf8"));
    const start = constants.logEventTypes.URL_REQUEST_START_JOB;
    if (start === undefined) {
      throw new Error("Chromium's network log has no requests by this name any more");
    }
    const asked = events.filter((event) => event.type === start && event.params?.url).map((event) => event.params);
    // The browser asks its maker now and then, whatever it is told; a page's requests say whose they are, or open a page.
    const ofPages = asked.filter((request) => request.initiator !== "not an origin" || request.request_type.endsWith("frame"));
    return ofPages.map((request) => request.url).filter((address) => /^(https?|wss?|ftp):/.test(address));
  }

  kill() {
    this.process.kill("SIGKILL");
  }
}

class Page {
  constructor(browser, session) {
    this.browser = browser;
    this.session = session;
    this.requests = [];
    this.sent = [];
    this.faults = [];
    browser.sessions.set(session, (method, params) => this.note(method, params));
  }

  note(method, params) {
    const notes = {
      "Network.requestWillBeSent": () => {
        this.requests.push(params.request.url);
        if (params.request.method === "POST") this.sent.push(params.request.url);
      },
      "Network.webSocketCreated": () => this.requests.push(params.url),
      "Page.loadEventFired": () => this.loaded?.(),
      "Network.loadingFailed": () => this.faults.push(`failed: ${params.type} ${params.errorText} ${params.blockedReason ?? ""}`),
      "Runtime.exceptionThrown": () =>
        this.faults.push(`exception: ${params.exceptionDetails.exception?.description ?? params.exceptionDetails.text}`),
      "Runtime.consoleAPICalled": () =>
        ["error", "warning", "assert"].includes(params.type) &&
        this.faults.push(`console: ${params.args.map((arg) => arg.value ?? arg.description).join(" ")}`),
      "Log.entryAdded": () =>
        ["error", "warning"].includes(params.entry.level) && this.faults.push(`log: ${params.entry.text} ${params.entry.url ?? ""}`),
      "Audits.issueAdded": () =>
        params.issue.code === "ContentSecurityPolicyIssue" &&
        this.faults.push(`policy: ${JSON.stringify(params.issue.details.contentSecurityPolicyIssueDetails)}`),
    };
    notes[method]?.();
  }

  call(method, params) {
    return this.browser.call(method, params, this.session);
  }

  async go(address) {
    const { errorText } = await this.call("Page.navigate", { url: address });
    if (errorText) {
      throw new Error(`${address}: ${errorText}`);
    }
    await this.until(`document.readyState === "complete"`, `${address} is loaded`);
  }

  // Does what leads to another page, and waits for it.
  async leads(act) {
    const loaded = new Promise((resolve) => (this.loaded = resolve));
    await act();
    if ((await Promise.race([loaded, pause(BOUND_MS, "late", { ref: false })])) === "late") {
      throw new Error(`this leads nowhere: ${act}\nshown: ${await this.evaluate("document.body?.innerText.slice(0, 2000)")}`);
    }
  }

  async evaluate(expression) {
    const { result, exceptionDetails } = await this.call("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) {
      throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    }
    return result.value;
  }

  // Waits until an expression counts as true.
  async until(expression, what) {
    const end = Date.now() + BOUND_MS;
    for (;;) {
      if (await this.evaluate(`Boolean(${expression})`)) {
        return;
      }
      if (Date.now() > end) {
        const shown = await this.evaluate("document.body?.innerText.slice(0, 2000)");
        throw new Error(`not within ${BOUND_MS / 1000} s: ${what}\nfaults: ${this.faults.join("\n")}\nshown: ${shown}`);
      }
      await pause(50);
    }
  }
}

function listening(child) {
  return new Promise((resolve, reject) => {
    let said = "";
    const late = setTimeout(() => reject(new Error(`Chromium does not start: ${said}`)), BOUND_MS);
    child.once("error", (error) => reject(new Error(`Chromium cannot be started: ${error.message}`)));
    child.once("exit", () => reject(new Error(`Chromium ended: ${said}`)));
    child.stderr.on("data", (bytes) => {
      said += bytes;
      const found = /DevTools listening on (ws:\S+)/.exec(said);
      if (found) {
        clearTimeout(late);
        resolve(found[1]);
      }
    });
  });
}
