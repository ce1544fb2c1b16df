// Findings: the verdict in words, and the list with its filter.
import { brief, count, element, plural, words } from './format.js';

const PAGE = 15;
export const SEVERITIES = {
  critical: { label: 'Critical', one: 'critical finding', many: 'critical findings', path: 'M5 1h6l4 4v6l-4 4H5l-4-4V5zM5 5l6 6M11 5l-6 6' },
  warn: { label: 'Warning', one: 'warning', many: 'warnings', path: 'M8 1.5 15 14H1zM8 6v4M8 11.8v.4' },
  info: { label: 'Note', one: 'note', many: 'notes', path: 'M8 1a7 7 0 1 0 .01 0zM8 7v5M8 4v.5' },
};

function icon(severity) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  for (const [k, v] of Object.entries({ viewBox: '0 0 16 16', class: 'icon', 'aria-hidden': 'true' })) svg.setAttribute(k, v);
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  path.setAttribute('d', SEVERITIES[severity].path);
  svg.append(path);
  return svg;
}

export function badge(severity, text = SEVERITIES[severity].label) {
  return element('span', { class: `badge ${severity}` }, icon(severity), ' ', text);
}

// "0, 3-5, 9"
function ranges(numbers) {
  const sorted = [...new Set(numbers)].sort((a, b) => a - b), parts = [];
  for (let i = 0; i < sorted.length; i++) {
    const first = sorted[i];
    while (sorted[i + 1] === sorted[i] + 1) i++;
    parts.push(first === sorted[i] ? `${first}` : `${first}–${sorted[i]}`);
  }
  return parts.length > 12 ? `${parts.slice(0, 12).join(', ')} …` : parts.join(', ');
}

export function verdict(findings) {
  const of = (s) => findings.filter((f) => f.severity === s).length;
  const numbers = Object.entries(SEVERITIES).filter(([s]) => of(s)).map(([s, w]) => plural(of(s), w.one, w.many));
  if (numbers.length === 0) return element('p', { class: 'verdict good' }, 'Nothing was found that asks for attention.');
  const worst = Object.keys(SEVERITIES).find((s) => of(s));
  const sentence = `${numbers.length > 1 ? `${numbers.slice(0, -1).join(', ')} and ${numbers.at(-1)}` : numbers[0]}.`;
  // What a command says of the whole comes as sentences, what it says more than once as counts.
  const whole = findings.filter((f) => f.code.endsWith('_summary'));
  const groups = new Map();
  for (const f of findings.filter((g) => !whole.includes(g))) {
    const key = `${f.severity} ${f.code}`;
    groups.set(key, [...(groups.get(key) ?? []), f]);
  }
  const lines = [...groups.values()].slice(0, 8).map((list) => {
    if (list.length === 1) return element('li', {}, badge(list[0].severity), ' ', element('strong', {}, words(list[0].code)), `: ${list[0].message}`);
    const layers = list.map((f) => f.layer).filter((l) => l !== null);
    const where = layers.length ? ` in ${new Set(layers).size === 1 ? 'layer' : 'layers'} ${ranges(layers)}` : '';
    return element('li', {}, badge(list[0].severity), ' ', element('strong', {}, words(list[0].code)), `: ${plural(list.length, 'case')}${where}`);
  });
  const sentences = whole.slice(0, 8).map((f) => element('p', { class: 'whole' }, `${f.message[0].toUpperCase()}${f.message.slice(1)}.`));
  return element('div', { class: `verdict ${worst}` }, element('p', {}, sentence), sentences, lines.length ? element('ul', {}, lines) : null);
}

// onselect(finding) shows what the finding is about.
export class Findings {
  constructor(findings, onselect) {
    this.findings = findings;
    this.onselect = onselect;
    this.off = new Set();
    this.limit = PAGE;
    this.list = element('ol', { class: 'findings' });
    this.more = element('button', { type: 'button', class: 'more', onclick: () => {
      this.limit += PAGE;
      this.render();
    } });
    this.root = element('div', {}, this.filters(), this.list, this.more);
    this.render();
  }

  filters() {
    const buttons = Object.entries(SEVERITIES).map(([severity, w]) => {
      const n = this.findings.filter((f) => f.severity === severity).length;
      const button = element('button', { type: 'button', class: `toggle ${severity}`, 'aria-pressed': 'true', disabled: n === 0, onclick: () => {
        const show = this.off.has(severity);
        if (show) this.off.delete(severity);
        else this.off.add(severity);
        button.setAttribute('aria-pressed', String(show));
        this.limit = PAGE;
        this.render();
      } }, icon(severity), ` ${w.label} `, element('span', { class: 'count' }, count(n)));
      return button;
    });
    return element('div', { class: 'filters', role: 'group', 'aria-label': 'Show findings by severity' }, buttons);
  }

  render() {
    const shown = this.findings.filter((f) => !this.off.has(f.severity));
    this.list.replaceChildren(...shown.slice(0, this.limit).map((f) => this.item(f)));
    const left = shown.length - this.limit;
    this.more.hidden = left <= 0;
    this.more.textContent = `Show ${Math.min(left, PAGE)} more (${count(left)} left)`;
  }

  item(finding) {
    const place = [];
    if (finding.stack) place.push(finding.stack);
    if (finding.layer !== null) place.push(`layer ${finding.layer}`);
    if (finding.head !== null) place.push(`head ${finding.head}`);
    if (finding.product) place.push(finding.product);
    const number = this.findings.indexOf(finding);
    const link = place.length
      ? element('a', { href: `#finding-${number}`, class: 'place', onclick: (event) => {
        event.preventDefault();
        history.replaceState(null, '', `#finding-${number}`);
        this.onselect(finding);
      } }, place.join(' · ')) : null;
    const numbers = finding.value === null ? null
      : element('span', { class: 'numbers', title: String(finding.value) }, finding.threshold === null ? brief(finding.value) : `${brief(finding.value)} against ${brief(finding.threshold)}`);
    return element('li', { class: finding.severity, id: `finding-${number}` },
      element('p', { class: 'finding-head' }, badge(finding.severity), element('code', {}, finding.code), link, numbers),
      element('p', { class: 'message' }, finding.message),
      finding.hint ? element('p', { class: 'hint' }, element('span', { 'aria-hidden': 'true' }, '→ '), finding.hint) : null);
  }
}
