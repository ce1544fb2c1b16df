// The answer, and the findings: one a code, with the cases behind it.
import { brief, count, element, plural, words } from './format.js';

const PAGE = 25;
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

const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}` : '');

// The headline is the verdict's sentence. A result without one says what the command says of the whole, or counts.
export function answer(result) {
  const { verdict, findings } = result;
  const worst = Object.keys(SEVERITIES).find((s) => findings.some((f) => f.severity === s)) ?? 'good';
  if (verdict?.answer) {
    return [element('h1', { class: `verdict ${verdict.severity ?? worst}` }, verdict.answer),
      verdict.next ? element('p', { class: 'next' }, element('span', { 'aria-hidden': 'true' }, '→ '), verdict.next) : null].filter(Boolean);
  }
  const whole = findings.find((f) => f.code.endsWith('_summary'));
  const numbers = Object.entries(SEVERITIES).map(([s, w]) => [findings.filter((f) => f.severity === s).length, w]).filter(([n]) => n).map(([n, w]) => plural(n, w.one, w.many));
  const counted = numbers.length ? `${numbers.length > 1 ? `${numbers.slice(0, -1).join(', ')} and ${numbers.at(-1)}` : numbers[0]}.` : 'Nothing was found that asks for attention.';
  return [element('h1', { class: `verdict ${worst}` }, whole ? sentence(whole.message) : counted), whole ? element('p', { class: 'next' }, counted) : null].filter(Boolean);
}

// The cases of each code, worst first: rows of table findings, which count milder ones with the code's severest.
function grouped(findings, rows) {
  const cases = new Map();
  for (const row of rows ?? []) {
    if (!cases.has(row.code)) cases.set(row.code, []);
    cases.get(row.code).push(row);
  }
  return findings.map((finding) => ({ finding, cases: cases.get(finding.code) ?? [finding] }));
}

const has = (value) => value !== null && value !== undefined && value !== '';

// onselect(finding) shows what the finding is about.
export class Findings {
  constructor(findings, rows, words, onselect) {
    const all = grouped(findings, rows);
    this.groups = all.filter((g) => !g.finding.housekeeping);
    this.house = all.filter((g) => g.finding.housekeeping);
    this.words = words ?? {};
    this.onselect = onselect;
    this.off = new Set();
    this.number = 0;
    this.list = element('ol', { class: 'findings' });
    this.items = this.groups.map((group) => this.item(group));
    const house = this.house.map((group) => this.item(group));
    this.root = element('div', {}, this.groups.length ? this.filters() : null, this.list,
      house.length ? element('details', { class: 'house' }, element('summary', {}, `Housekeeping (${plural(house.length, 'note')})`), element('ol', { class: 'findings' }, house)) : null);
    this.render();
  }

  filters() {
    return element('div', { class: 'filters', role: 'group', 'aria-label': 'Show findings by severity' }, Object.entries(SEVERITIES).map(([severity, w]) => {
      const n = this.groups.filter((g) => g.finding.severity === severity).length;
      const button = element('button', { type: 'button', class: `toggle ${severity}`, 'aria-pressed': 'true', disabled: n === 0, onclick: () => {
        const show = this.off.has(severity);
        if (show) this.off.delete(severity);
        else this.off.add(severity);
        button.setAttribute('aria-pressed', String(show));
        this.render();
      } }, icon(severity), ` ${w.label} `, element('span', { class: 'count' }, count(n)));
      return button;
    }));
  }

  render() {
    this.list.replaceChildren(...this.items.filter((_, i) => !this.off.has(this.groups[i].finding.severity)));
  }

  place(one) {
    const parts = [];
    if (has(one.variant)) parts.push(one.variant);
    if (has(one.stack)) parts.push(one.stack);
    if (has(one.layer)) parts.push(`layer ${one.layer}`);
    if (has(one.head)) parts.push(`head ${one.head}`);
    if (has(one.product)) parts.push(one.product);
    if (!parts.length) return null;
    const id = `finding-${this.number++}`;
    return element('a', { href: `#${id}`, id, class: 'place', onclick: (event) => {
      event.preventDefault();
      history.replaceState(null, '', `#${id}`);
      this.onselect(one);
    } }, parts.join(' · '));
  }

  numbers(one) {
    if (!has(one.value)) return null;
    return element('span', { class: 'numbers', title: String(one.value) }, has(one.threshold) ? `${brief(one.value)} against ${brief(one.threshold)}` : brief(one.value));
  }

  item({ finding, cases }) {
    const n = finding.count ?? cases.length;
    return element('li', { class: finding.severity },
      element('p', { class: 'finding-head' }, badge(finding.severity), element('code', { title: this.words[finding.code]?.meaning }, finding.code), this.place(finding), n > 1 ? element('span', { class: 'count' }, plural(n, 'case')) : null, this.numbers(finding)),
      element('p', { class: 'message' }, finding.message),
      finding.hint ? element('p', { class: 'hint' }, element('span', { 'aria-hidden': 'true' }, '→ '), finding.hint) : null,
      cases.length > 1 ? this.unfolding(finding, cases) : null);
  }

  // Cases are made when they are asked for: there may be hundreds.
  unfolding(finding, cases) {
    const list = element('ol', { class: 'cases' });
    let shown = 0;
    const more = element('button', { type: 'button', class: 'more', onclick: () => grow() });
    const grow = () => {
      list.append(...cases.slice(shown, shown + PAGE).map((one) => element('li', {}, this.place(one), this.numbers(one),
        has(one.message) && one.message !== finding.message ? element('span', {}, one.message) : null)));
      shown += PAGE;
      more.hidden = shown >= cases.length;
      more.textContent = `Show ${Math.min(cases.length - shown, PAGE)} more (${count(cases.length - shown)} left)`;
    };
    return element('details', { class: 'all', ontoggle: (event) => { if (event.target.open && shown === 0) grow(); } },
      element('summary', {}, `All ${plural(cases.length, 'case')}`), list, more);
  }
}
