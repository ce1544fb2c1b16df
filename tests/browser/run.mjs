// The report page in a real browser. Usage: node run.mjs CHROMIUM MAKE_SAMPLE [FOLDER_FOR_PICTURES]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { brief, csv } from '../../web/format.js';
import { Browser, Page } from './browser.mjs';

const [chromium, makeSample, pictures] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'rankscope-report-'));
const report = join(folder, 'report.html'), json = join(folder, 'result.json');
execFileSync(makeSample, [report, '6', '12', json]);
const expected = JSON.parse(readFileSync(json, 'utf8'));
const address = pathToFileURL(report).href;

let passed = 0, failed = 0;
async function check(name, test) {
  try {
    await test();
    passed++;
    console.log(`ok      ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAILED  ${name}: ${error.message}`);
  }
}
function equal(actual, wanted, what = 'value') {
  const [a, b] = [JSON.stringify(actual), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what} is ${a}, expected ${b}`);
}
function holds(truth, what) {
  if (!truth) throw new Error(what);
}

const browser = new Browser(chromium);
const page = await Page.open(browser, address);
const heads = "document.querySelector('#table-heads')";
const column = (name) => `[...${heads}.querySelectorAll('thead button')].findIndex((b) => b.dataset.column === '${name}')`;
// Titles carry the full value.
const cells = (name) => page.value(`(() => { const c = ${column(name)}; return [...${heads}.querySelectorAll('tbody tr')].map((r) => r.children[c].title || r.children[c].textContent); })()`);
const numbers = async (name) => (await cells(name)).map((t) => (t === '–' || t === 'no value' ? null : Number(t)));
const clickHead = (name) => page.value(`${heads}.querySelectorAll('thead button')[${column(name)}].click()`);
const filter = (text) => page.value(`(() => { const f = ${heads}.querySelector('input[type=search]'); f.value = ${JSON.stringify(text)}; f.dispatchEvent(new Event('input')); })()`);
const picture = async (name, from = page) => {
  if (!pictures) return;
  const { cssContentSize } = await from.send('Page.getLayoutMetrics');
  const { data } = await from.send('Page.captureScreenshot', { captureBeyondViewport: true, clip: { x: 0, y: 0, width: cssContentSize.width, height: cssContentSize.height, scale: 1 } });
  writeFileSync(join(pictures, `${name}.png`), Buffer.from(data, 'base64'));
};
const ascending = expected.tables.heads.map((r) => r.effective_rank).sort((a, b) => a - b);

await check('the embedded result is the JSON result', async () => {
  const embedded = JSON.parse(await page.value("document.getElementById('rankscope-result').textContent"));
  equal(JSON.stringify(embedded) === JSON.stringify(expected), true, 'equality');
});
await check('what a bound shows claims no more than it does', async () => {
  for (let i = 0; i < 20000; i++) {
    const value = (Math.random() - 0.5) * 10 ** Math.floor(Math.random() * 16 - 8);
    const near = Math.abs(Number(brief(value)) / value - 1), [low, high] = ['lower', 'upper'].map((bound) => Number(brief(value, bound)));
    holds(near <= 5.01e-4 && low <= value && value <= high && (high - low) <= 1.001e-3 * Math.abs(value), `${value}: ${low} to ${high}`);
  }
  const shown = (name) => page.value(`(() => { const t = document.querySelector('#table-curves'), c = [...t.querySelectorAll('thead button')].findIndex((b) => b.dataset.column === '${name}');
    return [...t.querySelectorAll('tbody tr')].map((r) => [Number(r.children[c].textContent), Number(r.children[c].title)]); })()`);
  for (const [name, holdsOf] of [['null_low', ([cell, full]) => cell <= full], ['null_high', ([cell, full]) => cell >= full]]) {
    const pairs = await shown(name);
    holds(pairs.length > 5 && pairs.every(holdsOf), `${name}: ${JSON.stringify(pairs.find((p) => !holdsOf(p)))}`);
    holds(pairs.some(([, full]) => !holdsOf([Number(full.toPrecision(4)), full])), `${name}: no value tells the nearest from the bound`);
  }
});
await check('the proof on a head stands in front of the figures, line by line, with what is false marked', async () => {
  const row = (step, line, norm, more) => ({ layer: 5, head: 3, step, line, norm, statement: `${line} in ${norm}`, left: 2, right: 4, ratio: 0.5, holds: true, repaired: null,
    repaired_right: null, repaired_ratio: null, repaired_holds: null, condition: null, condition_met: null, log10_left: 0.3, log10_right: 0.6, sample: 0, note: null, meaning: `What ${line} says.`, ...more });
  const rows = [row('hypothesis', 'range', 'inf', { ratio: 2, holds: false }), row('product', 'signed', '1', { ratio: 4, holds: false, repaired: 'its repair', repaired_right: 8, repaired_ratio: 0.25, repaired_holds: true }),
    row('bound', 'cubic', '1', { left: null, log10_left: 600.5, condition: 'a factor', condition_met: true }), row('bound', 'cubic', 'inf', { left: null, log10_left: null, note: 'a mask hides keys' })];
  const silent = { ...row('bound', 'cubic', '1', { left: null, log10_left: null, note: 'rotary positions' }), head: 4 };
  const added = `"tables":{"proof":${JSON.stringify([...rows, silent])},"proof_numbers":${JSON.stringify([{ layer: 5, head: 3, quantity: 'K', value: 2.5, log10_value: 0.39, meaning: 'a factor', note: null }])},`;
  const html = readFileSync(report, 'utf8'), at = html.indexOf('"tables":{', html.indexOf('id="rankscope-result"'));
  const path = join(folder, 'proof.html');
  writeFileSync(path, html.slice(0, at) + added + html.slice(at + '"tables":{'.length));
  const proof = await Page.open(browser, pathToFileURL(path).href);
  const text = (selector) => proof.value(`[...document.querySelectorAll('${selector}')].map((n) => n.textContent)`);
  equal(await proof.value("document.querySelector('main > section').id"), 'proof', 'the first section');
  equal(await text('#proof .line h4'), ['rangewhat is assumed is not so here', 'signedthe published line is false here', 'cubic']);
  equal((await text('#proof .proved > p')).map((t) => t.slice(0, 60)), ['As published, 1 line of the proof is false of this head (sig', 'The proof does not speak of this head: rotary positions.']);
  const all = (await text('#proof')).join('');
  for (const said of ['What signed says.', '✗ fails', 'its repair', '10^600.5', 'a mask hides keys', 'So it is here.']) holds(all.includes(said), `the page does not say '${said}'`);
  equal(await proof.value("document.querySelectorAll('#proof .share.over').length"), 2, 'bars that are over');
  equal(await proof.value('document.documentElement.scrollWidth <= innerWidth'), true, 'nothing is wider than the page');
  equal(proof.problems, []);
  await proof.close();
});
await check('the title names the model, the headline counts where there is no verdict', async () => {
  equal(await page.value('document.title'), 'all-MiniLM-L6-v2 · rankscope scan');
  equal(await page.value("document.querySelector('h1').textContent"), '1 critical finding, 1 warning and 1 note.');
});
await check('the first figure begins within 800 px, at both widths', async () => {
  for (const width of [420, 1280]) {
    await page.send('Emulation.setDeviceMetricsOverride', { width, height: 900, deviceScaleFactor: 1, mobile: false });
    await page.frames(`innerWidth === ${width}`);
    const top = await page.value("document.querySelector('figure .plot').getBoundingClientRect().top + scrollY");
    holds(top < 800 && top > 0, `at ${width}: ${top}`);
  }
});
await check('hostile text stays text', async () => {
  equal(await page.value("[...document.scripts].filter((s) => s.textContent === 'alert(1)').length"), 0);
  holds(await page.value("[...document.querySelectorAll('.message, .cases span')].some((m) => m.textContent.includes('<script>alert(1)</script>'))"), 'the message does not show the text');
});
await check('every figure is drawn, with marks', async () => {
  const drawn = await page.value("[...document.querySelectorAll('figure')].map((f) => [f.id, f.querySelectorAll('svg path, canvas').length])");
  equal(drawn.map(([id]) => id), Object.keys(expected.figures).map((n) => `figure-${n}`));
  for (const [id, marks] of drawn) holds(marks > 0, `${id} has no marks`);
  equal(await page.value("document.querySelectorAll('#figure-heatmap .mark-rect.role-mark path').length"), 144, 'cells of the heat map');
  equal(await page.value("document.querySelectorAll('#figure-spectra .mark-area path').length"), 144, 'null bands of the spectra');
  holds(await page.value("[...document.querySelectorAll('#figure-spectra text')].some((t) => t.textContent === 'chance, 5 to 95 %')"), 'the null band has no name');
  holds(await page.value("[...document.querySelectorAll('#figure-states text')].filter((t) => t.textContent === 'rounding floor').length === 2"), 'the rule has no name');
  equal(await page.value("document.querySelectorAll('#figure-heatmap .mark-symbol.role-mark path').length"), 7, 'flagged cells');
  const ground = "#figure-bounds", count = (what) => page.value(`document.querySelectorAll('${ground} ${what}').length`);
  equal([await count('.mark-rect.role-mark path'), await count('.mark-rule.role-mark line'), await count('.mark-line.role-mark path')], [2, 2, 1], 'shaded stretches, upright lines and curves');
  equal(await count('.mark-symbol.role-mark path'), 17, 'markers of nine points and of the eight bounds that say something');
  for (const name of ['proved here', 'published demand'])
    equal(await page.value(`[...document.querySelectorAll('${ground} text')].filter((t) => t.textContent === '${name}').length`), 1, name);
  equal(await page.value("document.querySelectorAll('figure .problem').length"), 0);
});
await check('edges run from place to place of the lattice, wider the stronger', async () => {
  const lines = await page.value(`[...document.querySelectorAll('#figure-lattice .mark-rule.role-mark line')].map((l) => {
    const { x, width, height } = l.getBoundingClientRect();
    return { width: Number(l.getAttribute('stroke-width')), level: height < 1, centre: Math.round(x + width / 2) };
  })`);
  equal(lines.length, expected.tables.edges.length, 'edges');
  expected.tables.edges.forEach((edge, k) => {
    equal(lines[k].level, edge.lane === edge.to_lane, `edge ${k} stays in its lane`);
    const other = expected.tables.edges.findIndex((e) => e.strength < edge.strength);
    if (other >= 0) holds(lines[k].width > lines[other].width, `edge ${k} is no wider than ${other}: ${JSON.stringify(lines)}`);
  });
  const columns = [...new Set(lines.map((l) => l.centre))].sort((a, b) => a - b);
  equal(columns.length, 3, 'stretches from the input over two layers to the output');
  equal(Math.abs(columns[2] - 2 * columns[1] + columns[0]) < 3, true, 'they are as long as each other');
  equal(await page.value("document.querySelectorAll('#figure-lattice .mark-symbol.role-mark path').length"), 6, 'places of two layers, two heads and the skip');
  const said = await page.value("[...document.querySelectorAll('#figure-lattice text')].map((t) => t.textContent)");
  for (const word of ['in', 'out', 'skip', 'one head', 'several heads', 'no head']) holds(said.includes(word), `no text '${word}'`);
});
await check('figures offer SVG and PNG, and no editor', async () => {
  const entries = await page.value("[...document.querySelectorAll('#figure-heatmap .vega-actions a')].map((a) => a.textContent)");
  equal(entries, ['Save as SVG', 'Save as PNG']);
});
await check('the CSV that a table saves begins no formula', async () => {
  const [quoted, names] = [(text) => `"${text}"`, ['text', 'number', 'list']];
  const rows = [['=1+1', "'=1+1"], ['+1', "'+1"], ['-x', "'-x"], ['@a,b', quoted("'@a,b")], ['\t=1', "'\t=1"], ['\r=1', quoted("'\r=1")], ['a=1', 'a=1'], ['', '""']];
  equal(csv(names, rows.map(([text]) => ({ text, number: -0.5, list: [-1, 2] }))), `text,number,list\n${rows.map(([, cell]) => `${cell},-0.5,-1;2\n`).join('')}`);
  equal(csv(['a'], [{ a: null }, {}, { a: true }]), 'a\n\n\ntrue\n');
  await page.value(`(() => { URL.createObjectURL = (blob) => { window.saved = blob; return '#'; }; [...${heads}.querySelectorAll('button')].find((b) => b.textContent === 'Save CSV').click(); })()`);
  const saved = await page.value('window.saved.text()');
  equal(saved === csv(Object.keys(expected.tables.heads[0]), expected.tables.heads), true, 'the saved table is the whole one');
});
await picture('light');
await check('a click on a column sorts, up, down, and back', async () => {
  await clickHead('effective_rank');
  equal((await numbers('effective_rank')).slice(0, 100), ascending.slice(0, 100), 'ascending order');
  equal(await page.value(`${heads}.querySelectorAll('th')[${column('effective_rank')}].getAttribute('aria-sort')`), 'ascending');
  await clickHead('effective_rank');
  equal((await numbers('effective_rank')).slice(0, 100), [...ascending].reverse().slice(0, 100), 'descending order');
  await clickHead('effective_rank');
  equal((await numbers('effective_rank')).slice(0, 100), expected.tables.heads.slice(0, 100).map((r) => r.effective_rank), 'original order');
});
await check('rows without a value stay last', async () => {
  for (const times of [1, 2]) {
    await clickHead('condition');
    await page.value(`${heads}.querySelector('[aria-label="Last page"]').click()`);
    equal((await numbers('condition')).slice(-2), [null, null], `end after ${times} clicks`);
  }
  await clickHead('condition');
});
await check('the keyboard sorts', async () => {
  await page.value(`${heads}.querySelectorAll('thead button')[${column('effective_rank')}].focus()`);
  await page.press('Enter', 'Enter', '\r');
  equal((await numbers('effective_rank'))[0], ascending[0], 'first value');
  equal(await page.value('document.activeElement.dataset.column'), 'effective_rank', 'focus');
});
await check('text and comparisons filter', async () => {
  await filter('layer=3 ov');
  const rows = expected.tables.heads.filter((r) => r.layer === 3 && r.product === 'ov').length;
  equal((await cells('layer')).length, rows, 'rows');
  equal([...new Set(await cells('product'))], ['ov']);
  await filter('effective_rank<10');
  equal(await numbers('effective_rank'), ascending.filter((v) => v < 10));
  await filter('no such text');
  holds((await page.value(`${heads}.querySelector('.rows').textContent`)).startsWith('No row'), 'an empty table says so');
});
await check("a finding's link selects its row and its cell", async () => {
  await page.value("document.querySelector('#finding-0.place').click()");
  const row = await page.value("(() => { const r = document.querySelector('#table-heads tr.selected'); const b = r.getBoundingClientRect(); return { id: r.id, inside: b.top >= 0 && b.bottom <= innerHeight, current: r.getAttribute('aria-current'), focus: document.activeElement === r }; })()");
  const index = expected.tables.heads.findIndex((r) => r.layer === 3 && r.head === 5 && r.product === 'qk');
  equal(row, { id: `row-heads-${index}`, inside: true, current: 'true', focus: true });
  await page.until("document.querySelectorAll('#figure-heatmap path[stroke=\"#d81b60\"]').length === 1");
  equal(await page.value(`${heads}.querySelector('input[type=search]').value`), '', 'the filter that hid the row');
});
await check('the measure of the heat map can be chosen', async () => {
  const fills = () => page.value("[...document.querySelectorAll('#figure-heatmap .mark-rect.role-mark path')].map((p) => p.getAttribute('fill')).join()");
  const before = await fills();
  await page.value("(() => { const s = document.querySelector('#figure-heatmap select'); s.value = 'condition'; s.dispatchEvent(new Event('change')); })()");
  await page.until("document.querySelector('#figure-heatmap-plot').dataset.drawn === 'condition'");
  holds((await fills()) !== before, 'the colours did not change');
  holds(await page.value("[...document.querySelectorAll('#figure-heatmap text')].some((t) => t.textContent === 'condition number')"), 'the legend has the old title');
  holds((await fills()).includes('#9aa0a6'), 'the cell without a value is not grey');
  equal(await page.value("document.querySelectorAll('#figure-heatmap path[stroke=\"#d81b60\"]').length"), 1, 'the highlight after redrawing');
});
await check('findings of a code are one, and unfold to their cases', async () => {
  equal(await page.value("[...document.querySelectorAll('.findings > li code')].map((c) => c.textContent)"), ['qk_low_rank', 'dead_head', 'unknown_tensor']);
  equal(await page.value("document.querySelectorAll('.cases > li').length"), 0, 'cases before they are asked for');
  await page.value("document.querySelectorAll('.findings details.all > summary')[0].click()");
  await page.until("document.querySelectorAll('.findings details.all')[0].querySelectorAll('.cases > li').length === 6");
  await page.value("document.querySelectorAll('.findings details.all > summary')[1].click()");
  await page.until("document.querySelectorAll('.findings details.all')[1].querySelectorAll('.cases > li').length === 25");
  await page.value("document.querySelectorAll('.findings details.all')[1].querySelector('.more').click()");
  await page.value("document.querySelectorAll('.findings details.all')[1].querySelector('.more').click()");
  equal(await page.value("document.querySelectorAll('.findings details.all')[1].querySelectorAll('.cases > li').length"), 54);
});
await check('findings are filtered by severity', async () => {
  await page.value("document.querySelector('.toggle.info').click()");
  equal(await page.value("document.querySelectorAll('.findings > li').length"), 2);
  equal(await page.value("document.querySelector('.toggle.info').getAttribute('aria-pressed')"), 'false');
});
await check('light and dark', async () => {
  const ground = () => page.value('getComputedStyle(document.body).backgroundColor');
  const light = await ground();
  await page.value("document.getElementById('theme').click()");
  await page.until("[...document.querySelectorAll('.plot')].every((p) => p.dataset.theme === 'dark')");
  holds((await ground()) !== light, 'the ground did not change');
  await page.value("document.getElementById('theme').click()");
  await page.until("[...document.querySelectorAll('.plot')].every((p) => p.dataset.theme === 'light')");
});
await check('the keyboard goes through the page and is never trapped', async () => {
  await page.value("(() => { document.activeElement.blur(); scrollTo(0, 0); })()");
  const seen = new Set();
  let unnamed = 0, end = false;
  await page.value("document.querySelector('.skip').focus()");
  for (let i = 0; i < 400 && !end; i++) {
    const at = await page.value("(() => { const e = document.activeElement; if (e === document.body) return null; e.dataset.tabbed ??= Math.random(); return { id: e.dataset.tabbed, tag: e.tagName, name: (e.getAttribute('aria-label') || e.textContent || e.labels?.[0]?.textContent || '').trim(), last: e.closest('footer') !== null }; })()");
    if (at) {
      seen.add(at.id);
      unnamed += at.name === '';
      end = at.last;
    }
    await page.press('Tab');
  }
  holds(end, 'the end of the page was not reached');
  equal(unnamed, 0, 'controls without a name');
  holds(seen.size > 30, `only ${seen.size} controls were reached`);
});
await check('no sideways scrolling at 420, 800 and 1280', async () => {
  for (const width of [420, 800, 1280]) {
    await page.send('Emulation.setDeviceMetricsOverride', { width, height: 900, deviceScaleFactor: 1, mobile: false });
    await page.frames(`innerWidth === ${width} && document.documentElement.scrollWidth <= innerWidth`);
    const [content, window_] = await page.value('[document.documentElement.scrollWidth, innerWidth]');
    holds(content <= window_, `at ${width}: content is ${content} wide`);
    await picture(`width-${width}`);
  }
});
await check('in print: 40 rows of a table, and a note', async () => {
  await page.send('Emulation.setEmulatedMedia', { media: 'print' });
  equal(await page.value(`[...${heads}.querySelectorAll('tbody tr')].filter((r) => getComputedStyle(r).display !== 'none').length`), 40);
  holds(await page.value(`getComputedStyle(${heads}.querySelector('.print-note')).display !== 'none'`), 'the note is hidden');
  if (pictures) writeFileSync(join(pictures, 'print.pdf'), Buffer.from((await page.send('Page.printToPDF', { preferCSSPageSize: true })).data, 'base64'));
  await picture('print');
  await page.send('Emulation.setEmulatedMedia', { media: '' });
});
await check('no console error, no exception, no network request', async () => equal(page.problems, []));
await page.value('localStorage.clear()'); // the choice of a theme is kept
await page.close();

// ---- curves ----

const states = expected.figures.states;
const layerWith = (channel) => states.spec.layer.find((l) => l.encoding?.[channel]?.scale).encoding[channel].scale;
await check('curves differ in dash or marker, and have names at their ends', async () => {
  const dashes = layerWith('strokeDash'), shapes = layerWith('shape'), colours = layerWith('color');
  equal(colours.domain.length, 8);
  for (let i = 0; i < 8; i++) for (let j = 0; j < i; j++) {
    holds(`${dashes.range[i]}` !== `${dashes.range[j]}` || shapes.range[i] !== shapes.range[j], `${colours.domain[i]} and ${colours.domain[j]} have one dash and one marker`);
    holds(colours.range[i] !== colours.range[j], 'one colour');
  }
  const named = states.data.values.filter((row) => row.label).map((row) => `${row.panel} ${row.label}`);
  equal(new Set(named).size, 16, 'names in two panels');
});

// Pixels of a colour on all pages of the PDF.
function ink(pdf, colours) {
  writeFileSync(join(folder, 'page.pdf'), pdf);
  execFileSync('pdftoppm', ['-r', '110', '-f', '1', '-l', '2', join(folder, 'page.pdf'), join(folder, 'ink')]);
  const counts = new Map(colours.map((c) => [c, 0]));
  const wanted = colours.map((c) => [c, [1, 3, 5].map((k) => parseInt(c.slice(k, k + 2), 16))]);
  for (const file of readdirSync(folder).filter((f) => f.startsWith('ink'))) {
    const bytes = readFileSync(join(folder, file)), head = /^P6\s+\d+\s+\d+\s+255\s/.exec(bytes.subarray(0, 40).toString('latin1'))[0].length;
    for (let i = head; i + 2 < bytes.length; i += 3)
      for (const [name, rgb] of wanted) if (Math.abs(bytes[i] - rgb[0]) + Math.abs(bytes[i + 1] - rgb[1]) + Math.abs(bytes[i + 2] - rgb[2]) < 24) counts.set(name, counts.get(name) + 1);
    rmSync(join(folder, file));
  }
  return counts;
}
const canInk = (() => { try { execFileSync('pdftoppm', ['-v'], { stdio: 'ignore' }); return true; } catch { return false; } })();
for (const dark of [false, true])
  await check(`in print every curve has its ink (${dark ? 'dark' : 'light'} page)`, async () => {
    if (!canInk) return console.log('        skipped: no pdftoppm found; make deps-test installs it');
    const paper = await Page.open(browser, address, { dark });
    // The lines alone: names and markers are drawn apart, and have ink where a line has none.
    await paper.value("document.head.append(Object.assign(document.createElement('style'), { textContent: '.mark-symbol, .mark-text.role-mark { display: none; }' }))");
    const { data } = await paper.send('Page.printToPDF', { preferCSSPageSize: true, printBackground: true });
    const scale = layerWith('color');
    for (const [colour, pixels] of ink(Buffer.from(data, 'base64'), scale.range)) holds(pixels > 20, `${scale.domain[scale.range.indexOf(colour)]} has ${pixels} pixels of ${colour}`);
    equal(paper.problems, []);
    await paper.close();
  });
for (const [width, dark] of [[420, false], [420, true], [1280, true]])
  await check(`drawn at ${width} px, ${dark ? 'dark' : 'light'}`, async () => {
    const other = await Page.open(browser, address, { width, dark });
    equal(await other.value("[...document.querySelectorAll('.plot')].filter((p) => !p.dataset.drawn || !p.querySelector('svg, canvas')).length"), 0, 'figures that are not drawn');
    holds(await other.value('document.documentElement.scrollWidth <= innerWidth'), 'the page scrolls sideways');
    holds(await other.value("document.querySelector('#figure-states svg').getBoundingClientRect().width <= document.querySelector('#figure-states').clientWidth"), 'the figure is wider than its frame');
    await picture(`${width}-${dark ? 'dark' : 'light'}`, other);
    equal(other.problems, []);
    await other.close();
  });

await check('a reader who prefers dark gets dark', async () => {
  const dark = await Page.open(browser, address, { dark: true });
  equal(await dark.value('document.documentElement.dataset.theme'), 'dark');
  await picture('dark', dark);
  equal(dark.problems, []);
  await dark.close();
});
await check('2048 heads in 32 layers: drawn, sorted and filtered', async () => {
  execFileSync(makeSample, [report, '32', '2048']);
  const large = await Page.open(browser, address);
  console.log(`        ready after ${large.milliseconds} ms`);
  equal(await large.value("document.querySelectorAll('figure .problem').length"), 0);
  holds(await large.value("document.querySelector('#figure-heatmap canvas') !== null"), 'the heat map is not on a canvas');
  const begin = Date.now();
  await large.value("[...document.querySelectorAll('#table-heads thead button')].find((b) => b.dataset.column === 'effective_rank').click()");
  await large.value("document.querySelector('#finding-0.place').click()");
  console.log(`        sorted and selected after ${Date.now() - begin} ms`);
  holds(await large.value("document.querySelector('#table-heads tr.selected') !== null"), 'no row is selected');
  await picture('large', large);
  equal(large.problems, []);
  await large.close();
});

await check('a dark page prints its figures, canvas and SVG, as a light one does, and is dark again behind it', async () => {
  if (!canInk) return console.log('        skipped: no pdftoppm found; make deps-test installs it');
  const print = async (dark) => {
    const paper = await Page.open(browser, address, { dark });
    holds(await paper.value("document.querySelector('#figure-heatmap canvas') !== null"), 'the heat map is not on a canvas');
    const { data } = await paper.send('Page.printToPDF', { preferCSSPageSize: true, printBackground: true });
    const counts = ink(Buffer.from(data, 'base64'), ['#1b2027', '#d7dce2', '#ffffff']);
    if (pictures) writeFileSync(join(pictures, `print-canvas-${dark ? 'dark' : 'light'}.pdf`), Buffer.from(data, 'base64'));
    await paper.until(`document.querySelector('#figure-heatmap-plot').dataset.theme === '${dark ? 'dark' : 'light'}'`);
    const corner = "[...document.querySelector('#figure-heatmap canvas').getContext('2d').getImageData(2, 2, 1, 1).data].slice(0, 3)";
    equal(await paper.value(corner), dark ? [27, 32, 39] : [255, 255, 255], 'the ground on the screen');
    equal(paper.problems, []);
    await paper.close();
    return counts;
  };
  const [light, dark] = [await print(false), await print(true)];
  for (const colour of ['#1b2027', '#d7dce2'])
    holds(dark.get(colour) < light.get(colour) + 500, `${dark.get(colour)} pixels of ${colour} from a dark page, ${light.get(colour)} from a light one`);
  holds(dark.get('#ffffff') > 0.98 * light.get('#ffffff'), `${dark.get('#ffffff')} white pixels from a dark page, ${light.get('#ffffff')} from a light one`);
});

await browser.close();
rmSync(folder, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
