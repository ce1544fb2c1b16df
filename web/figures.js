// Charts: the result's Vega-Lite specifications, which carry their data.
import embed from 'vega-embed';
import { brief, element, words } from './format.js';

// More rows than this are drawn on a canvas: an element for each would be slow. A line is one element
// however many rows it goes through.
const MANY = 4000, MANY_ON_LINES = 30000;
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

function config(dark) {
  const text = dark ? '#d7dce2' : '#2b3138', faint = dark ? '#3a424c' : '#dfe3e8', line = dark ? '#6b7683' : '#98a2ad';
  const titles = { titleColor: text, labelColor: text, titleFont: FONT, labelFont: FONT, titleFontWeight: 500, labelFontSize: 11, titleFontSize: 12 };
  return {
    background: dark ? '#1b2027' : '#ffffff',
    font: FONT,
    view: { stroke: faint },
    axis: { ...titles, gridOpacity: 0.6, gridColor: faint, domainColor: line, tickColor: line },
    legend: { ...titles, gradientThickness: 12 },
    header: { ...titles, labelFontSize: 12, labelFontWeight: 600 },
    title: { color: text, font: FONT },
    text: { font: FONT },
    rect: { stroke: null },
  };
}

// A deep copy in which texts (colours of curves) and one measure's name are exchanged.
function exchanged(spec, texts, from, to) {
  const visit = (value) => {
    if (Array.isArray(value)) return value.map(visit);
    if (typeof value === 'string') return texts[value] ?? value;
    if (value === null || typeof value !== 'object') return value;
    const copy = {};
    for (const [key, member] of Object.entries(value)) copy[key] = key === 'usermeta' ? member : visit(member);
    if (to && copy.field === from.field) {
      copy.field = to.field;
      if ('title' in copy) copy.title = to.title;
      if (copy.scale?.domain) copy.scale = { ...copy.scale, domain: to.domain };
      if (copy.legend) delete copy.legend.values;
    }
    return copy;
  };
  return visit(spec);
}

// The whole width of the page, as many panels side by side as it takes. `label` is the room that names
// at the ends of curves need.
function fit(spec, available, label, panels) {
  const panel = spec.spec ?? spec;
  const text = JSON.stringify(panel.layer), cells = text.includes('"rect"'), legend = text.includes('"legend":{"format"');
  const axis = 76, room = Math.max(200, available - axis - (legend ? 96 : 0));
  if (cells) {
    const cell = panel.width < 760 ? 1.5 : 1; // cells may be wider than high where there is room
    const columns = Math.min(panels, spec.columns ?? 1);
    panel.width = Math.floor(Math.min(Math.max(panel.width, Math.min(panel.width * cell, (room + 20) / columns - 20)), room));
    if (spec.spec) spec.columns = Math.max(1, Math.min(panels, Math.floor((room + 20) / (panel.width + 20))));
    return;
  }
  const small = spec.spec && panel.width < 200;
  const least = small ? 128 : 220 + label, gap = small ? spec.spacing : 24;
  const most = small ? 12 : panels % 3 ? 2 : 3; // no panel is left alone in its row
  const columns = spec.spec ? Math.max(1, Math.min(panels, most, Math.floor((room + gap) / (least + gap)))) : 1;
  if (spec.spec) spec.columns = columns;
  panel.width = Math.max(120, Math.floor((room + gap) / columns - gap - label));
  if (!small) panel.height = Math.max(panel.height, Math.min(400, Math.round(panel.width * 0.4))); // not flat
}

// On paper curves have the colours of a light page, whichever they were drawn in.
const onPaper = new Set();
function rulesForPaper(dark) {
  for (const [light, now] of Object.entries({ ...dark, '#ffffff': '#1b2027' })) onPaper.add(`.plot svg.marks .role-mark [stroke="${now}"] { stroke: ${light}; } .plot svg.marks .role-mark [fill="${now}"] { fill: ${light}; }`);
  let style = document.getElementById('on-paper');
  if (!style) document.head.append(style = element('style', { id: 'on-paper', media: 'print' }));
  style.textContent = [...onPaper].join('\n');
}

// The scale of a measure, with 0.
function extent(rows, field) {
  let low = 0, high = 0;
  for (const row of rows) {
    low = Math.min(low, row[field] ?? 0);
    high = Math.max(high, row[field] ?? 0);
  }
  return low < high ? [low, high] : [0, 1];
}

export class Figure {
  // onpick(table, keys) is called when the reader asks for the row behind a mark.
  constructor(name, spec, about, tables, onpick) {
    this.name = name;
    const { data, title, description, ...rest } = spec; // the page has its own title
    this.spec = { ...rest, data: { name: 'rows' } };
    this.about = about ?? {};
    this.own = spec.usermeta?.rankscope ?? {};
    this.table = this.own.table;
    this.rows = data?.values ?? [];
    this.source = tables[this.table] ?? [];
    this.measure = this.own.measures?.find((m) => m.field === this.own.field);
    this.selection = null;
    this.onpick = onpick;
    this.printing = false;
    this.drawing = Promise.resolve();
    this.root = this.build();
  }

  build() {
    const id = `figure-${this.name}`;
    this.plot = element('div', { class: 'plot', id: `${id}-plot` });
    this.picked = element('p', { class: 'picked', role: 'status' });
    return element('figure', { id, 'aria-labelledby': `${id}-title` },
      element('div', { class: 'figure-head' },
        element('h3', { id: `${id}-title` }, this.about.title ?? words(this.name)), this.chooser(id)),
      this.plot, this.picked,
      (this.own.notes ?? []).map((note) => element('p', { class: 'note' }, note)),
      this.about.about ? element('figcaption', {}, this.about.about) : null);
  }

  chooser(id) {
    if (!this.measure || this.own.measures.length < 2) return null;
    const select = element('select', { id: `${id}-measure`, onchange: () => {
      this.measure = this.own.measures.find((m) => m.field === select.value);
      this.draw();
    } }, this.own.measures.map((m) => element('option', { value: m.field }, m.title)));
    select.value = this.measure.field;
    return element('p', { class: 'chooser' }, element('label', { for: `${id}-measure` }, 'Measure '), select);
  }

  // One drawing at a time; the latest settings win.
  draw() {
    this.drawing = this.drawing.then(() => this.drawNow()).catch((error) => {
      this.plot.replaceChildren(element('p', { class: 'problem' }, `This chart could not be drawn: ${error.message}`));
      console.error(error);
    });
    return this.drawing;
  }

  // A canvas holds the colours that it was drawn in, so that a dark one is drawn anew for paper, and again
  // behind it. The browser prints once the handlers of its event and the promises that they set off are
  // through; drawing awaits nothing else (no timer, no frame), so that it is done by then.
  print(begins) {
    const dark = document.documentElement.dataset.theme === 'dark' && this.plot.querySelector('canvas');
    if (!(begins ? dark : this.printing)) return;
    this.printing = begins;
    this.draw();
  }

  async drawNow() {
    const first = this.own.measures?.find((m) => m.field === this.own.field);
    const dark = document.documentElement.dataset.theme === 'dark' && !this.printing;
    if (dark) rulesForPaper(this.own.dark);
    const texts = dark ? { ...this.own.dark, '#ffffff': '#1b2027' } : {};
    const rows = this.drawnRows();
    const spec = exchanged(this.spec, texts, first, this.measure === first ? null : { ...this.measure, domain: extent(rows, this.measure?.field) });
    if (!rows.length) {
      this.plot.dataset.drawn = 'empty';
      this.plot.dataset.theme = dark ? 'dark' : 'light';
      return;
    }
    const label = this.own.label ? Math.round(this.own.label * 6.1) + 14 : 0;
    fit(spec, this.plot.clientWidth || 900, label, new Set(rows.map((r) => r.panel)).size);
    this.result?.finalize();
    this.result = await embed(this.plot, spec, {
      config: config(dark),
      renderer: this.rows.length > (/"type":"line"/.test(JSON.stringify(spec)) ? MANY_ON_LINES : MANY) ? 'canvas' : 'svg',
      actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
      downloadFileName: `rankscope-${this.name}`,
      scaleFactor: { png: 2, svg: 1 },
      tooltip: { theme: dark ? 'dark' : 'light' },
      mode: 'vega-lite',
      // Rows go into the compiled specification: the Vega-Lite compiler would copy them again and again.
      patch: (compiled) => {
        const source = compiled.data.find((d) => d.name === 'rows');
        if (source) source.values = rows;
        return compiled;
      },
    });
    const { view } = this.result;
    this.applySelection();
    await view.runAsync();
    view.addEventListener('click', (_, item) => this.pick(item));
    const menu = this.plot.querySelector('summary');
    if (menu) menu.setAttribute('aria-label', `Save ${this.about.title ?? this.name} as SVG or PNG`);
    this.plot.dataset.drawn = this.measure?.field ?? 'yes';
    this.plot.dataset.theme = dark ? 'dark' : 'light';
  }

  // The rows with the chosen measure, as objects of their own: Vega writes into its rows.
  drawnRows() {
    const field = this.measure && this.measure.field !== this.own.field ? this.measure.field : null;
    return this.rows.map((row) => (field ? { ...row, [field]: this.source[row.row]?.[field] ?? null } : { ...row }));
  }

  // ---- the row that stands out ----

  highlight(keys) {
    this.selection = keys;
    if (this.result) {
      this.applySelection();
      this.result.view.runAsync();
    }
  }

  applySelection() {
    const { view } = this.result;
    const keys = this.selection;
    for (const key of this.own.keys ?? []) view.signal(`rs_${key}`, keys?.[key] ?? null);
    if (this.own.keys) view.signal('rs_selected', keys !== null && this.own.keys.some((k) => keys[k] !== undefined && keys[k] !== null));
  }

  pick(item) {
    const datum = item?.datum?.datum ?? item?.datum;
    const names = (this.own.keys ?? []).filter((k) => datum && datum[k] !== undefined && datum[k] !== null);
    if (names.length === 0) return;
    const keys = Object.fromEntries(names.map((k) => [k, datum[k]]));
    const value = this.measure ? `, ${this.measure.title} ${brief(this.source[datum.row]?.[this.measure.field])}` : '';
    this.picked.replaceChildren(`${names.map((k) => `${k} ${keys[k]}`).join(', ')}${value} `,
      element('button', { type: 'button', class: 'link', onclick: () => this.onpick(this.table, keys, true) }, 'show its row'));
    this.onpick(this.table, keys, false);
  }
}
