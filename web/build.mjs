// Bundles the report page: `node build.mjs OUTPUT_FILE`. Sources are beside this file; packages are
// found in the folder that NODE_PATH names, or in node_modules here.
import { build } from 'esbuild';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const source = process.env.RANKSCOPE_WEB ?? here;
const output = resolve(process.argv[2] ?? 'page.html');

const common = { bundle: true, minify: true, write: false, legalComments: 'none', logLevel: 'warning' };
const script = await build({
  ...common,
  entryPoints: [join(source, 'main.js')],
  format: 'iife',
  target: ['chrome90', 'firefox90', 'safari15'],
  nodePaths: [join(here, 'node_modules')],
  metafile: true,
  absWorkingDir: here,
});
const style = await build({ ...common, entryPoints: [join(source, 'style.css')], absWorkingDir: here });

// Notices that the licences of bundled packages ask for, each text once.
function licences(inputs) {
  const packages = new Map();
  for (const input of inputs) {
    const match = /^(.*node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(input);
    if (match) packages.set(match[2], resolve(here, match[1]));
  }
  const texts = new Map();
  for (const [name, folder] of [...packages].sort()) {
    const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const file = readdirSync(folder).find((f) => /^licen[cs]e/i.test(f));
    const text = file && existsSync(join(folder, file)) ? readFileSync(join(folder, file), 'utf8').trim() : `Licence: ${license}`;
    texts.set(text, [...(texts.get(text) ?? []), `${name} ${version}`]);
  }
  return [...texts].map(([text, names]) => `${names.join(', ')}\n\n${text}`).join('\n\n----\n\n');
}

// Text inside <script> must neither end the element nor begin a comment.
const forScript = (text) => text.replace(/<(?=\/script|!--)/gi, '\\x3C');
const forPlain = (text) => text.replace(/<(?=\/script|!--)/gi, '&lt;');

const parts = {
  '/*page-style*/': style.outputFiles[0].text,
  '/*page-licences*/': forPlain(licences(Object.keys(script.metafile.inputs))),
  '/*page-script*/': forScript(script.outputFiles[0].text),
};
let page = readFileSync(join(source, 'template.html'), 'utf8');
for (const [mark, text] of Object.entries(parts)) {
  if (!page.includes(mark)) throw new Error(`template.html lacks ${mark}`);
  page = page.replace(mark, () => text);
}
writeFileSync(output, page);
