// Runs one test of the module: node node.mjs MODULE CASE URL
import { createRequire } from "node:module";

const [module, name, url] = process.argv.slice(2);
const { run } = createRequire(import.meta.url)(module);
try {
  console.log(await run(name, url));
} catch (error) {
  console.error(error);
  process.exitCode = 1;
}
// A timer that nobody cancelled must not keep the process alive.
process.exit();
