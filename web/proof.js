// The proof of the cubic bound on heads of the model, line by line, for whoever has never seen one.
import { brief, element, full, plural } from './format.js';

const NORMS = { entry: 'number by number', 1: 'by columns, ‖·‖₁', inf: 'by rows, ‖·‖∞', '1,inf': 'both, ‖·‖₁,∞' };
const STEPS = {
  hypothesis: 'What is assumed',
  lemma: '1. From scores to attention',
  product: '2. From attention to tokens',
  norms: '3. From tokens to sizes',
  ranges: '4. From scores back to tokens',
  bound: '5. The bound',
};

// A number of a row: plain, or as a power of ten where no double is.
function shown(row, name) {
  const plain = row[name], log = row[`log10_${name}`];
  if (plain !== null && plain !== undefined) return element('span', { title: full(plain) }, brief(plain));
  if (log !== null && log !== undefined) return element('span', { title: `10^${full(log)}` }, `10^${brief(log)}`);
  return '–';
}

const verdict = (holds) => (holds === true ? element('span', { class: 'holds' }, '✓ holds') : holds === false
  ? element('span', { class: 'fails' }, '✗ fails') : element('span', {}, '– not decided'));

// How much of the right side the left one is: a bar that is full, and marked, beyond it.
function bar(ratio, holds) {
  if (ratio === null) return null;
  const share = Math.min(1, Math.max(0, ratio));
  const node = element('span', { class: holds === false ? 'share over' : 'share', role: 'img', 'aria-label': `${brief(ratio)} of the right side` }, element('span', {}));
  node.firstChild.style.width = `${(100 * share).toFixed(1)}%`;
  return node;
}

const side = (row, name, ratio, holds) => element('td', { class: 'number' }, shown(row, name), ' ', verdict(holds), ratio === null ? null : [' ', bar(ratio, holds), ` ${brief(ratio)}`]);

function norm(row) {
  if (row.left === null && row.log10_left === null)
    return element('tr', {}, element('th', { scope: 'row' }, NORMS[row.norm]), element('td', { colspan: '3' }, row.note ?? '–'));
  return element('tr', {}, element('th', { scope: 'row' }, NORMS[row.norm], element('code', {}, row.statement)),
    element('td', { class: 'number' }, shown(row, 'left')), side(row, 'right', row.ratio, row.holds),
    row.repaired ? element('td', { class: 'number' }, element('code', {}, row.repaired), shown(row, 'repaired_right'), ' ', verdict(row.repaired_holds),
      row.repaired_ratio === null ? null : [' ', bar(row.repaired_ratio, row.repaired_holds), ` ${brief(row.repaired_ratio)}`]) : element('td', {}, 'needs none'));
}

// One line of the proof: what it says, what it rests on, and its numbers in each norm.
function line(rows) {
  const first = rows[0], assumed = first.step === 'hypothesis', fails = rows.some((r) => r.holds === false);
  const rests = rows.find((r) => r.condition);
  return element('article', { class: fails ? 'line fails' : 'line' },
    element('h4', {}, element('code', {}, first.line), fails ? element('span', { class: 'fails' }, assumed ? 'what is assumed is not so here' : 'the published line is false here') : null),
    element('p', {}, first.meaning),
    rests ? element('p', { class: 'rests' }, `As published it rests on this: ${rests.condition}. ${rests.condition_met === true ? 'So it is here.' : rests.condition_met === false ? 'That is not so here, so nothing follows from it for this head.' : ''}`) : null,
    element('div', { class: 'scroller', tabindex: '0', role: 'region', 'aria-label': `Line ${first.line}` }, element('table', {},
      element('thead', {}, element('tr', {}, ['Looked at', 'left side', 'right side as published', 'right side repaired'].map((t) => element('th', { scope: 'col' }, t)))),
      element('tbody', {}, rows.map(norm)))));
}

function steps(rows) {
  const parts = [];
  for (const [step, title] of Object.entries(STEPS)) {
    const own = rows.filter((r) => r.step === step), names = [...new Set(own.map((r) => r.line))];
    if (own.length) parts.push(element('h3', {}, title), names.map((name) => line(own.filter((r) => r.line === name))));
  }
  return parts;
}

function numbers(rows) {
  return element('details', { class: 'definitions', open: true }, element('summary', {}, 'The letters, and what they are for this head'),
    element('dl', {}, rows.flatMap((r) => [element('dt', {}, element('code', {}, r.quantity), ' = ', shown(r, 'value')), element('dd', {}, r.meaning)])));
}

function head(rows, quantities) {
  const { layer, head: number, sample } = rows[0], known = rows.filter((r) => r.left !== null || r.log10_left !== null);
  const title = `Layer ${layer}, head ${number}`;
  if (!known.length) return element('section', { class: 'proved' }, element('h3', {}, title), element('p', {}, `The proof does not speak of this head: ${rows[0].note}.`));
  const failing = [...new Set(known.filter((r) => r.holds === false && r.step !== 'hypothesis').map((r) => r.line))];
  const assumed = known.some((r) => r.step === 'hypothesis' && r.holds === false) ? ' What it assumes is not so here either.' : '';
  const broken = known.filter((r) => r.repaired_holds === false).length;
  const said = failing.length ? `As published, ${plural(failing.length, 'line')} of the proof ${failing.length === 1 ? 'is' : 'are'} false of this head (${failing.join(', ')}).` : 'No published line is false of this head.';
  return element('section', { class: 'proved' }, element('h3', {}, title),
    element('p', {}, `${said}${assumed} ${broken ? `${plural(broken, 'repaired line')} fail.` : 'Every repaired line holds.'} The numbers are of text ${sample} (the first), as it enters this layer's attention.`),
    numbers(quantities), steps(rows));
}

// rows of table proof and of table proof_numbers
export function proof(rows, quantities) {
  const heads = [...new Set(rows.map((r) => `${r.layer}:${r.head}`))];
  const of = (list, key) => list.filter((r) => `${r.layer}:${r.head}` === key);
  return element('div', { class: 'proof' },
    element('p', {}, 'An attention head mixes tokens: each becomes an average of all. The theorem says that this draws them together, and fast: what tells the tokens apart, a number R, becomes at most a constant times R³. '
      + 'A proof is a chain of inequalities, each of the form "left side ≤ right side". Here is the whole chain, with the two sides worked out for this model\'s own head. '
      + 'A bar shows how much of the right side the left one takes; where it is over, the line is false. Where the published chain has a gap, the repaired right side beside it has none.'),
    heads.map((key) => head(of(rows, key), of(quantities ?? [], key))));
}
