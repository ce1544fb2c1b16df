// The report: reads the result embedded in this file and lays it out.
import { Figure } from './figures.js';
import { Findings, answer } from './findings.js';
import { announce, brief, download, element, full, plural, words } from './format.js';
import { proof } from './proof.js';
import { Table } from './tables.js';

const text = (id) => document.getElementById(id).textContent;
const result = JSON.parse(text('rankscope-result'));
const about = JSON.parse(text('rankscope-about'));
const main = document.getElementById('main');
const figures = [], tables = new Map();

// ---- theme ----

const preferred = matchMedia('(prefers-color-scheme: dark)');
function remembered() {
  try {
    return localStorage.getItem('rankscope-theme');
  } catch {
    return null; // storage may be forbidden for local files
  }
}
function setTheme(theme, keep) {
  document.documentElement.dataset.theme = theme;
  document.getElementById('theme-name').textContent = theme === 'dark' ? 'Dark' : 'Light';
  if (keep) {
    try {
      localStorage.setItem('rankscope-theme', theme);
    } catch { /* the choice then lasts for this visit */ }
  }
  return Promise.all(figures.map((f) => f.draw()));
}
const chosen = () => remembered() ?? (preferred.matches ? 'dark' : 'light');

// ---- selecting a row everywhere ----

const KEYS = ['variant', 'site', 'stack', 'attention', 'layer', 'head', 'product'];

function select(tableName, keys, move) {
  const table = tables.get(tableName) ?? [...tables.values()].find((t) => t.find(keys) >= 0);
  for (const figure of figures) figure.highlight(keys);
  for (const other of tables.values()) if (other !== table && other.selected >= 0) other.select(-1, { move: false });
  const index = table ? table.find(keys) : -1;
  if (index >= 0) table.select(index, { move });
  announce(index >= 0 ? `Row selected in table ${table.name}` : 'No table has this row');
}

function selectFinding(finding) {
  const keys = {};
  for (const key of KEYS) if (finding[key] !== null && finding[key] !== undefined) keys[key] = finding[key];
  select(finding.table, keys, true);
}

// ---- sections ----

function facts(pairs) {
  const shown = pairs.filter(([, v]) => v !== null && v !== undefined && v !== '' && typeof v !== 'object');
  return element('dl', { class: 'facts' }, shown.map(([name, value]) => element('div', {},
    element('dt', {}, words(name)), element('dd', { title: full(value) }, typeof value === 'number' && value >= 1e6 ? `${brief(value / 1e6)} million` : brief(value)))));
}

function section(id, title, ...children) {
  const node = element('section', { id, 'aria-labelledby': `${id}-title` }, element('h2', { id: `${id}-title` }, title), children);
  main.append(node);
  document.getElementById('sections').append(element('a', { href: `#${id}` }, title));
}

// {a: {b: 1}} -> [['a b', 1]]
function flat(object, prefix = '') {
  return Object.entries(object ?? {}).flatMap(([k, v]) => (v !== null && typeof v === 'object' && !Array.isArray(v)
    ? flat(v, `${prefix}${k} `) : [[`${prefix}${k}`, Array.isArray(v) ? v.filter((x) => typeof x !== 'object').join(', ') : v]]));
}

// What was looked at, the answer, and what to do next.
function headline() {
  const model = result.model ?? {}, args = result.args ?? {};
  const input = args.experiment ?? args.path ?? args.input ?? args.checkpoint ?? null; // of lab "input" is the word "run"
  const name = input ? String(input).replace(/\/+$/, '').split('/').pop() : model.family ?? args.experiment ?? result.command;
  document.title = `${name} · rankscope ${result.command}`;
  document.getElementById('brand').textContent = `rankscope ${result.command}`;
  const size = [model.layers && plural(model.layers, 'layer'), model.heads && plural(model.heads, 'head'), model.d_model && `width ${model.d_model}`, model.dtype];
  main.append(element('p', { class: 'path' }, element('strong', {}, name), ` ${size.filter(Boolean).join(', ')}`), ...answer(result));
}

function layOut() {
  headline();
  for (const [name, rows] of Object.entries(result.tables)) tables.set(name, new Table(name, rows, about.tables[name]));
  // a table that answers the command's question comes first; the others stand behind the figures
  const first = [...tables.values()].filter((t) => t.about.lead), others = [...tables.values()].filter((t) => !t.about.lead);
  for (const table of first) section(`lead-${table.name}`, table.about.title ?? words(table.name), table.root);
  if (result.tables.proof?.length) section('proof', 'The proof, line by line', proof(result.tables.proof, result.tables.proof_numbers));
  for (const [name, spec] of Object.entries(result.figures)) figures.push(new Figure(name, spec, about.figures[name], result.tables, select));
  if (figures.length) section('figures', 'Figures', figures.map((f) => f.root));
  if (result.findings.length) section('findings', 'Findings', new Findings(result.findings, result.tables.findings, about.words, selectFinding).root);
  if (others.length) section('tables', 'Tables', contents(others), others.map((t) => t.root));
  if (Object.keys(about.words ?? {}).length) section('words', 'Words', glossary(about.words));
  const known = new Set(['rankscope', 'command', 'tables', 'figures', 'findings', 'model', 'verdict']);
  section('run', 'This run', facts([...Object.entries(result.model ?? {}), ['command', result.command], ['rankscope', result.rankscope],
    ...flat(Object.fromEntries(Object.entries(result).filter(([k]) => !known.has(k))))]));
}

// What the words of this page mean; `rankscope explain` says the same.
function glossary(meanings) {
  return element('details', { class: 'definitions' }, element('summary', {}, `What ${plural(Object.keys(meanings).length, 'word')} of this page mean`),
    element('dl', {}, Object.entries(meanings).flatMap(([name, word]) => [element('dt', {}, element('code', {}, name)), element('dd', {}, [word.meaning, word.rule, word.todo].filter(Boolean).join(' '))])));
}

function contents(list) {
  return element('p', { class: 'contents' }, list.map((t) => element('a', { href: `#table-${t.name}` }, `${t.about.title ?? words(t.name)} (${plural(t.rows.length, 'row')})`)));
}

function foot() {
  document.getElementById('foot').append(
    element('p', {}, `Made by rankscope ${result.rankscope}. Numbers show four significant digits; hover for all of them. A dash is a value that does not exist, and a finding says why.`),
    element('details', {}, element('summary', {}, 'Licences of the chart library'), element('pre', {}, text('licences'))));
}

// ---- buttons ----

async function copy(content) {
  try {
    await navigator.clipboard.writeText(content);
  } catch { // a page from a file may not have the clipboard: select and copy as of old
    const area = element('textarea', { 'aria-hidden': 'true' });
    area.value = content;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

function buttons() {
  const copyButton = document.getElementById('copy-json');
  copyButton.addEventListener('click', async () => {
    await copy(text('rankscope-result'));
    announce('JSON copied');
    copyButton.textContent = 'Copied';
    setTimeout(() => { copyButton.textContent = 'Copy JSON'; }, 1500);
  });
  document.getElementById('save-json').addEventListener('click', () => download(`rankscope-${result.command}.json`, 'application/json', text('rankscope-result')));
  document.getElementById('theme').addEventListener('click', () => setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark', true));
  preferred.addEventListener('change', () => { if (!remembered()) setTheme(chosen()); });
}

function followWidth() {
  let width = main.clientWidth, timer = 0;
  new ResizeObserver(() => {
    if (Math.abs(main.clientWidth - width) < 30) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      width = main.clientWidth;
      for (const figure of figures) figure.draw();
    }, 200);
  }).observe(main);
}

function followPrinter() {
  for (const [event, begins] of [['beforeprint', true], ['afterprint', false]])
    addEventListener(event, () => { for (const figure of figures) figure.print(begins); });
}

document.documentElement.dataset.theme = chosen();
layOut();
foot();
buttons();
followPrinter();
performance.mark('laid out');
// The words and the tables appear before the charts are drawn, and each chart before the next is.
const frame = () => new Promise((resolve) => { requestAnimationFrame(() => setTimeout(resolve)); });
async function drawAll() {
  await frame();
  document.documentElement.dataset.theme = chosen();
  document.getElementById('theme-name').textContent = chosen() === 'dark' ? 'Dark' : 'Light';
  for (const figure of figures) {
    await figure.draw();
    if (figure === figures[0]) performance.mark('first figure');
    await frame();
  }
  performance.mark('all figures');
}
drawAll().then(() => {
  followWidth();
  const linked = document.getElementById(location.hash.slice(1));
  if (linked?.classList.contains('place')) linked.click();
  document.documentElement.dataset.ready = 'yes';
});
