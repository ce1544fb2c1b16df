// Opens reports in a headless Chromium and prints when each was laid out, when its first figure and when all had marks:
// milliseconds since the page was opened, as JSON. Usage: node report_page.mjs CHROMIUM REPEATS REPORT.html...
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Browser, Page } from '../tests/browser/browser.mjs';

const [chromium, repeats, ...reports] = process.argv.slice(2);
const MARKS = ['laid out', 'first figure', 'all figures'];
const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

async function open(browser, report) {
  const page = await Page.open(browser, pathToFileURL(resolve(report)).href);
  const times = await page.value(`${JSON.stringify(MARKS)}.map((name) => performance.getEntriesByName(name)[0]?.startTime)`);
  const bare = await page.value("[...document.querySelectorAll('.plot')].filter((p) => p.dataset.drawn !== 'empty' && !p.querySelector('svg path, canvas')).length");
  if (bare || times.includes(null) || page.problems.length) throw new Error(`${report}: ${bare} figures without marks; ${page.problems.join('; ')}`);
  await page.close();
  return times;
}

const browser = new Browser(chromium);
const { product } = await browser.send('Browser.getVersion');
const runs = reports.map(() => []);
for (let i = 0; i < Number(repeats); i++) for (const [r, report] of reports.entries()) runs[r].push(await open(browser, report));
await browser.close();
console.log(JSON.stringify({ browser: product, reports: runs.map((times) => Object.fromEntries(MARKS.map((name, m) => [name, median(times.map((t) => t[m]))]))) }));
