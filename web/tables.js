// One table: sorted, filtered, a page of rows at a time.
import { announce, brief, count, csv, download, element, full, words } from './format.js';

const PAGE = 100;
const FEW = 12; // so few rows need no filter
const PRINTED = 40; // rows that the print style keeps; style.css has the same number
const OPERATORS = {
  '<=': (a, b) => a <= b, '>=': (a, b) => a >= b, '!=': (a, b) => a !== b,
  '<': (a, b) => a < b, '>': (a, b) => a > b, '=': (a, b) => a === b,
};

export class Table {
  constructor(name, rows, about) {
    this.name = name;
    this.rows = rows;
    this.about = about ?? {};
    this.columns = this.about.columns ?? Object.keys(rows[0] ?? {}).map((n) => ({ name: n, type: 'text' }));
    this.hidden = new Set();
    this.order = Uint32Array.from(rows, (_, i) => i);
    this.sorted = { column: null, direction: 0 };
    this.page = 0;
    this.selected = -1;
    this.texts = null; // lower-case text of each row, made when first filtered
    this.root = this.build();
    this.render();
  }

  // ---- building ----

  build() {
    const id = `table-${this.name}`;
    this.head = element('tr');
    this.body = element('tbody');
    this.status = element('p', { class: 'rows', role: 'status' });
    this.pager = element('div', { class: 'pager', role: 'group', 'aria-label': `Pages of table ${this.name}` });
    this.filter = element('input', {
      type: 'search', id: `${id}-filter`, placeholder: 'text, or layer=3 effective_rank<4', spellcheck: 'false',
      autocomplete: 'off', oninput: () => this.update(),
    });
    this.scroller = element('div', { class: this.rows.length > PAGE / 2 ? 'scroller long' : 'scroller', tabindex: '0', role: 'region', 'aria-label': `Table ${this.name}` },
      element('table', {}, element('caption', { class: 'visually-hidden' }, this.about.title ?? words(this.name)),
        element('thead', {}, this.head), this.body));
    const small = this.rows.length <= FEW;
    const tools = element('div', { class: 'tools' },
      small ? null : [element('label', { for: `${id}-filter` }, 'Filter'), this.filter, this.columnPicker()],
      element('button', { type: 'button', onclick: () => this.saveCsv() }, 'Save CSV'));
    return element('section', { class: this.about.lead ? 'table lead' : 'table', id, 'aria-labelledby': `${id}-title` },
      element('h3', { id: `${id}-title` }, this.about.title ?? words(this.name), ' ', element('code', {}, this.name)),
      this.about.about ? element('p', { class: 'about' }, this.about.about) : null,
      small ? null : tools, this.scroller,
      element('div', { class: 'below' }, this.status, this.pager, small ? tools : null),
      element('p', { class: 'print-note' }),
      this.definitions());
  }

  columnPicker() {
    const boxes = this.columns.map((column) => {
      const box = element('input', { type: 'checkbox', onchange: () => {
        if (box.checked) this.hidden.delete(column.name);
        else this.hidden.add(column.name);
        this.render();
      } });
      box.checked = true;
      return element('label', {}, box, ' ', column.name);
    });
    return element('details', { class: 'picker' }, element('summary', {}, 'Columns'), element('div', { class: 'boxes' }, boxes));
  }

  // What each column means, for those who cannot hover.
  definitions() {
    const known = this.columns.filter((c) => c.formula || c.unit || (c.provenance && c.provenance !== 'measured'));
    if (known.length === 0) return null;
    return element('details', { class: 'definitions' }, element('summary', {}, 'What the columns mean'),
      element('dl', {}, known.flatMap((c) => [
        element('dt', {}, element('code', {}, c.name)),
        element('dd', {}, this.explain(c)),
      ])));
  }

  explain(column) {
    const parts = [column.title ?? words(column.name)];
    if (column.formula) parts.push(column.formula);
    if (column.unit) parts.push(`unit: ${column.unit}`);
    if (column.provenance && column.provenance !== 'measured') parts.push(column.provenance);
    return parts.join(' · ');
  }

  // ---- order ----

  sortBy(name) {
    const { column, direction } = this.sorted;
    const next = column !== name ? 1 : direction === 1 ? -1 : direction === -1 ? 0 : 1;
    this.sorted = { column: next ? name : null, direction: next };
    this.update();
    announce(next ? `Sorted by ${name}, ${next > 0 ? 'ascending' : 'descending'}` : 'Original order');
  }

  // Terms separated by blanks, all of which must hold: "column<number", or text anywhere in the row.
  predicate() {
    const terms = this.filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const tests = terms.map((term) => {
      const match = /^(\w+)(<=|>=|!=|<|>|=)(.+)$/.exec(term);
      const column = match && this.columns.find((c) => c.name.toLowerCase() === match[1]);
      if (!column) return (i) => this.texts[i].includes(term);
      const [, , operator, right] = match;
      const number = Number(right);
      if (column.type === 'text' || column.type === 'bool' || Number.isNaN(number))
        return (i) => OPERATORS[operator](String(this.rows[i][column.name] ?? '').toLowerCase(), right);
      return (i) => this.rows[i][column.name] !== null && OPERATORS[operator](this.rows[i][column.name], number);
    });
    if (tests.length && !this.texts)
      this.texts = this.rows.map((row) => Object.values(row).map(brief).join(' ').toLowerCase());
    return (i) => tests.every((test) => test(i));
  }

  update() {
    const keep = this.predicate();
    const kept = [];
    for (let i = 0; i < this.rows.length; i++) if (keep(i)) kept.push(i);
    const { column, direction } = this.sorted;
    if (column) {
      const values = this.rows.map((row) => (Array.isArray(row[column]) ? row[column].length : row[column]));
      kept.sort((i, j) => {
        const a = values[i], b = values[j];
        if (a === b) return i - j;
        if (a === null) return 1; // rows without a value stay last
        if (b === null) return -1;
        return a < b ? -direction : direction;
      });
    }
    this.order = Uint32Array.from(kept);
    this.page = 0;
    this.render();
  }

  // ---- drawing ----

  render() {
    const shown = this.columns.filter((c) => !this.hidden.has(c.name));
    this.head.replaceChildren(...shown.map((c) => this.headCell(c)));
    const first = this.page * PAGE, last = Math.min(first + PAGE, this.order.length);
    const rows = [];
    for (let k = first; k < last; k++) rows.push(this.row(this.order[k], shown));
    this.body.replaceChildren(...rows);
    const total = this.order.length;
    const of = total === this.rows.length ? '' : ` (of ${count(this.rows.length)})`;
    this.status.textContent = total ? `Rows ${count(first + 1)} to ${count(last)} of ${count(total)}${of}` : `No row fits the filter${of}`;
    this.root.querySelector('.print-note').textContent = total > PRINTED || shown.length > 12
      ? `In print: the first ${PRINTED} rows and 12 columns shown on screen; the whole table has ${count(this.rows.length)} rows and ${this.columns.length} columns (--csv, --json).` : '';
    this.renderPager();
  }

  headCell(column) {
    const mine = this.sorted.column === column.name ? this.sorted.direction : 0;
    const button = element('button', { type: 'button', title: this.explain(column), onclick: () => {
      this.sortBy(column.name);
      [...this.head.querySelectorAll('button')].find((b) => b.dataset.column === column.name)?.focus();
    } }, column.name.replaceAll('_', '_\u200b'), element('span', { class: 'arrow', 'aria-hidden': 'true' }, mine > 0 ? '▲' : mine < 0 ? '▼' : ''));
    button.dataset.column = column.name;
    return element('th', {
      scope: 'col', class: column.type === 'text' ? 'text' : 'number',
      'aria-sort': mine > 0 ? 'ascending' : mine < 0 ? 'descending' : 'none',
    }, button);
  }

  row(index, shown) {
    const data = this.rows[index];
    const row = document.createElement('tr');
    row.id = `row-${this.name}-${index}`;
    if (index === this.selected) {
      row.className = 'selected';
      row.setAttribute('aria-current', 'true');
      row.tabIndex = -1;
    }
    for (const column of shown) {
      const cell = document.createElement('td');
      const value = data[column.name];
      cell.textContent = brief(value, column.bound);
      if (column.type !== 'text') cell.className = 'number';
      if (typeof value === 'number' || Array.isArray(value) || (typeof value === 'string' && value.length > 40)) cell.title = full(value);
      row.append(cell);
    }
    return row;
  }

  renderPager() {
    const pages = Math.ceil(this.order.length / PAGE);
    if (pages < 2) {
      this.pager.replaceChildren();
      return;
    }
    const go = (label, name, page) => element('button', {
      type: 'button', 'aria-label': name, disabled: page < 0 || page >= pages || page === this.page,
      onclick: () => {
        this.page = page;
        this.render();
        this.scroller.scrollTop = 0;
        this.pager.querySelector(`[aria-label="${name}"]:not([disabled])`)?.focus();
      },
    }, label);
    this.pager.replaceChildren(
      go('«', 'First page', 0), go('‹', 'Previous page', this.page - 1),
      element('span', {}, `page ${this.page + 1} of ${pages}`),
      go('›', 'Next page', this.page + 1), go('»', 'Last page', pages - 1));
  }

  // ---- selecting ----

  // The index of the first row whose columns have these values, -1 when there is none. Columns that
  // the table lacks are no condition.
  find(keys) {
    const names = Object.keys(keys).filter((k) => this.columns.some((c) => c.name === k));
    if (names.length === 0) return -1;
    return this.rows.findIndex((row) => names.every((k) => row[k] === keys[k]));
  }

  // Brings the row into view, whatever the filter and page were.
  select(index, { move = true } = {}) {
    this.selected = index;
    let place = this.order.indexOf(index);
    if (place < 0 && index >= 0) {
      this.filter.value = '';
      this.update();
      place = this.order.indexOf(index);
    }
    if (place >= 0) this.page = Math.floor(place / PAGE);
    this.render();
    if (index < 0 || !move) return;
    const row = document.getElementById(`row-${this.name}-${index}`);
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: 'center', inline: 'nearest' });
  }

  saveCsv() {
    const rows = [...this.order].map((index) => this.rows[index]);
    download(`${this.name}.csv`, 'text/csv', csv(this.columns.map((c) => c.name), rows));
  }
}
