// Drives headless Chromium for test-browser: opens URL, and at each line of its input goes one step on. It says one JSON object a
// line. usage: browser.mjs URL SCREENSHOT_DIR PROFILE_DIR
import { createInterface } from "node:readline";
import { join } from "node:path";
import puppeteer from "puppeteer-core";

const [url, out, profile] = process.argv.slice(2);
const WAIT_MS = 30000;

const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  pipe: true,
  userDataDir: profile,
  // Tests run as root, in whose user namespace Chromium does not make its own sandbox; it visits nothing but the test's page.
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"],
});
const end = async (code) => {
  await browser.close();
  process.exit(code);
};
process.on("SIGTERM", () => end(1));

try {
  const page = await browser.newPage();
  const devtools = await page.createCDPSession();
  const frames = [];
  let loads = 0;
  let socket = "";

  await devtools.send("Network.enable");
  devtools.on("Network.webSocketCreated", (e) => { socket = new URL(e.url).host; });
  devtools.on("Network.webSocketFrameReceived", (e) => frames.push(e.response.payloadData));
  page.on("load", () => loads++);

  const text = () => page.$eval("#text", (e) => e.textContent);
  const until = (want) => page.waitForFunction((w) => document.querySelector("#text")?.textContent === w, { timeout: WAIT_MS }, want);

  const reply = await page.goto(url, { waitUntil: "load", timeout: WAIT_MS });
  await until("first");
  // The development server's greeting: from now on it tells of changes.
  for (const start = Date.now(); !frames.some((f) => f.includes('"connected"')); ) {
    if (Date.now() - start > WAIT_MS) throw new Error("the WebSocket says nothing");
    await new Promise((done) => setTimeout(done, 20));
  }
  await page.evaluate(() => { window.marker = true; });
  await page.screenshot({ path: join(out, "browser-before.png") });
  say({ status: reply.status(), title: await page.title(), text: await text(), socket });

  await lines.next();
  await until("second");
  await page.screenshot({ path: join(out, "browser-after.png") });
  say({ text: await text(), loads, marker: await page.evaluate(() => window.marker === true), frames });

  await lines.next();
  const other = await browser.newPage();
  const gone = await other.goto(url, { timeout: WAIT_MS });
  say({ status: gone.status(), text: await gone.text() });

  await lines.next();
  await end(0);
} catch (e) {
  process.stderr.write(`${e.stack}\n`);
  await end(1);
}
