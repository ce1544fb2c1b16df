// Numbers and words for people, and small DOM helpers.

export const words = (name) => String(name).replaceAll('_', ' ');

// Four significant digits: the nearest, or those on the safe side of a bound ('upper', 'lower'), which claim no more than it does.
function fourDigits(value, bound) {
  const near = Number(value.toPrecision(4));
  if (!bound || value === 0 || (bound === 'upper' ? near >= value : near <= value)) return near;
  const last = 10 ** (Number(value.toExponential().split('e')[1]) - 3);
  return Number((near + (bound === 'upper' ? last : -last)).toPrecision(4));
}

// What a cell says of a value; the full one belongs in a title.
export function brief(value, bound) {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) {
    if (value.length === 0) return '(0)';
    return `${brief(value[0], bound)} … ${brief(value[value.length - 1], bound)} (${value.length})`;
  }
  if (typeof value !== 'number') return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value);
  const size = Math.abs(value);
  const digits = fourDigits(value, bound);
  return size >= 1e-4 && size < 1e6 ? String(digits) : digits.toExponential(3).replace(/\.?0+e/, 'e').replace('e+', 'e');
}

export function full(value) {
  if (value === null || value === undefined) return 'no value';
  const text = Array.isArray(value) ? value.join(', ') : String(value);
  return text.length > 1500 ? `${text.slice(0, 1500)} …` : text;
}

// Text as a spreadsheet may open it: what would begin a formula gets an apostrophe in front. Numbers stay.
function csvText(text) {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) || safe === '' ? `"${safe.replaceAll('"', '""')}"` : safe;
}

// A table as CSV: names of columns, and rows as objects. Null is an empty cell, an empty text a quoted one.
export function csv(names, rows) {
  const cell = (v) => (v === null || v === undefined ? '' : Array.isArray(v) ? v.join(';') : typeof v === 'string' ? csvText(v) : String(v));
  const lines = [names.map(csvText), ...rows.map((row) => names.map((n) => cell(row[n])))];
  return `${lines.map((line) => line.join(',')).join('\n')}\n`;
}

export const count = (n) => n.toLocaleString('en').replaceAll(',', '\u202f');
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

// element('a', {href, class, onclick}, child, 'text', ...)
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined));
  return node;
}

export function announce(text) {
  document.getElementById('announcer').textContent = text;
}

export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  element('a', { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
