// Charts: Vega-Lite specifications of the result, drawn over its tables.
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
    line: { strokeCap: 'round' },
    rect: { stroke: null },
  };
}

// A deep copy in which one measure takes the place of another, also in titles and tests.
function withMeasure(spec, from, to) {
  const visit = (value) => {
    if (Array.isArray(value)) return value.map(visit);
    if (value === null || typeof value !== 'object') return value;
    const copy = {};
    for (const [key, member] of Object.entries(value)) copy[key] = key === 'usermeta' ? member : visit(member);
    if (copy.field === from.field) {
      copy.field = to.field;
      if ('title' in copy) copy.title = to.title;
    }
    return copy;
  };
  return visit(spec);
}

// Panels no wider than the page, and as many side by side as fit.
function fit(spec, available) {
  const margin = 150; // axis, legend, menu
  const panel = spec.spec ?? spec;
  if (typeof panel.width !== 'number') return;
  const room = Math.max(220, available - margin);
  panel.width = Math.min(panel.width, room);
  if (spec.spec && spec.columns) spec.columns = Math.max(1, Math.min(spec.columns, Math.floor((room + 40) / (panel.width + 40))));
}

// Only the columns that a figure mentions, as objects of its own: Vega writes into its rows.
function rowsFor(spec, rows) {
  const text = JSON.stringify(spec);
  const names = Object.keys(rows[0] ?? {}).filter((n) => text.includes(`"${n}"`) || text.includes(`'${n}'`));
  return rows.map((row) => {
    const copy = {};
    for (const name of names) copy[name] = row[name];
    return copy;
  });
}

export class Figure {
  // onpick(table, keys) is called when the reader asks for the row behind a mark.
  constructor(name, spec, about, tables, onpick) {
    this.name = name;
    this.spec = spec;
    this.about = about ?? {};
    this.table = spec.data?.name;
    this.rows = rowsFor(spec, tables[this.table] ?? []);
    this.own = spec.usermeta?.rankscope ?? {};
    this.measure = this.own.measures?.find((m) => m.field === this.own.field);
    this.selection = null;
    this.onpick = onpick;
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

  async drawNow() {
    const first = this.own.measures?.find((m) => m.field === this.own.field);
    const spec = first && this.measure !== first ? withMeasure(this.spec, first, this.measure) : structuredClone(this.spec);
    fit(spec, this.plot.clientWidth || 900);
    const dark = document.documentElement.dataset.theme === 'dark';
    this.result?.finalize();
    this.result = await embed(this.plot, spec, {
      config: config(dark),
      renderer: this.rows.length > (/"mark":"line"/.test(JSON.stringify(spec)) ? MANY_ON_LINES : MANY) ? 'canvas' : 'svg',
      actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
      downloadFileName: `rankscope-${this.name}`,
      scaleFactor: { png: 2, svg: 1 },
      tooltip: { theme: dark ? 'dark' : 'light' },
      mode: 'vega-lite',
      // Rows go into the compiled specification: the Vega-Lite compiler would copy them again and again.
      patch: (compiled) => {
        const source = compiled.data.find((d) => d.name === this.table);
        if (source) source.values = this.rows;
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
    const value = this.measure ? `, ${this.measure.title} ${brief(datum[this.measure.field])}` : '';
    this.picked.replaceChildren(`${names.map((k) => `${k} ${keys[k]}`).join(', ')}${value} `,
      element('button', { type: 'button', class: 'link', onclick: () => this.onpick(this.table, keys, true) }, 'show its row'));
    this.onpick(this.table, keys, false);
  }
}
