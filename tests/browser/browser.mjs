// A headless Chromium driven over its DevTools pipe (file descriptors 3 and 4, messages ended by NUL).
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync', '--remote-debugging-pipe'];

export class Browser {
  constructor(program) {
    this.folder = mkdtempSync(join(tmpdir(), 'rankscope-browser-'));
    this.process = spawn(program, [...FLAGS, `--user-data-dir=${this.folder}`, 'about:blank'], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    this.waiting = new Map();
    this.listeners = [];
    this.number = 0;
    let rest = '';
    this.process.stdio[4].setEncoding('utf8').on('data', (text) => {
      const messages = (rest + text).split('\0');
      rest = messages.pop();
      for (const message of messages) this.receive(JSON.parse(message));
    });
    this.process.on('error', (error) => this.end(error));
    this.process.on('exit', () => this.end(new Error('the browser ended')));
  }

  end(error) {
    for (const { reject } of this.waiting.values()) reject(error);
    this.waiting.clear();
    this.ended = error;
  }

  receive(message) {
    const call = this.waiting.get(message.id);
    if (!call) {
      for (const listen of this.listeners) listen(message);
      return;
    }
    this.waiting.delete(message.id);
    if (message.error) call.reject(new Error(`${call.method}: ${message.error.message}`));
    else call.resolve(message.result);
  }

  send(method, params = {}, sessionId = undefined) {
    if (this.ended) return Promise.reject(this.ended);
    const id = ++this.number;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, method });
      this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  async close() {
    const ended = new Promise((resolve) => this.process.once('exit', resolve));
    await this.send('Browser.close').catch(() => this.process.kill());
    await ended;
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

// One page without network; `problems` collects console errors, exceptions and requests that leave the file.
export class Page {
  static async open(browser, address, { width = 1280, height = 900, dark = false } = {}) {
    const page = new Page();
    page.browser = browser;
    page.problems = [];
    const { targetId } = await browser.send('Target.createTarget', { url: 'about:blank' });
    page.target = targetId;
    ({ sessionId: page.session } = await browser.send('Target.attachToTarget', { targetId, flatten: true }));
    browser.listeners.push((message) => message.sessionId === page.session && page.listen(message));
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await page.send(`${domain}.enable`);
    await page.send('Network.emulateNetworkConditions', { offline: true, latency: 0, downloadThroughput: 0, uploadThroughput: 0 });
    await page.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
    await page.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }, { name: 'prefers-reduced-motion', value: 'reduce' }] });
    const begin = Date.now();
    await page.send('Page.navigate', { url: address });
    await page.until("document.documentElement?.dataset.ready === 'yes'");
    page.milliseconds = Date.now() - begin;
    return page;
  }

  send(method, params) {
    return this.browser.send(method, params, this.session);
  }

  listen({ method, params }) {
    if (method === 'Runtime.exceptionThrown') this.problems.push(`exception: ${params.exceptionDetails.exception?.description ?? params.exceptionDetails.text}`);
    if (method === 'Runtime.consoleAPICalled' && ['error', 'warning', 'assert'].includes(params.type))
      this.problems.push(`console ${params.type}: ${params.args.map((a) => a.value ?? a.description).join(' ')}`);
    if (method === 'Log.entryAdded' && params.entry.level === 'error') this.problems.push(`log: ${params.entry.text}`);
    if (method === 'Network.requestWillBeSent' && !/^(file|data|blob|about):/.test(params.request.url)) this.problems.push(`request: ${params.request.url}`);
  }

  // The value of an expression in the page (a promise is awaited).
  async value(expression) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  // Waits as long as it takes (on a busy machine that may be long) unless the page has failed meanwhile.
  async until(expression) {
    const known = this.problems.length;
    while (!(await this.value(`Boolean(${expression})`))) {
      if (this.problems.length > known) throw new Error(`did not become true: ${expression}: ${this.problems[known]}`);
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }

  // Lets the page draw until the expression is true, at most so many frames: a count, which a busy machine does not shorten.
  frames(expression, most = 300) {
    return this.value(`(async () => {
      for (let i = 0; i < ${most} && !(${expression}); i++) await new Promise(requestAnimationFrame);
    })()`);
  }

  async press(key, code = key, text = undefined) {
    const event = { key, code, text, windowsVirtualKeyCode: { Enter: 13, Tab: 9, Escape: 27 }[key] ?? 0 };
    await this.send('Input.dispatchKeyEvent', { type: 'keyDown', ...event });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...event });
  }

  close() {
    return this.browser.send('Target.closeTarget', { targetId: this.target });
  }
}
